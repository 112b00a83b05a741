/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* mkstemp */
#include "lib/base/kept.h"
#include "lib/base/replace.h"
#include "lib/base/shared.h"
#include "tests/test.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *text_of(const char *path) {
    static char text[64];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f) fclose(f);
    text[n] = 0;
    return f ? text : NULL;
}

static void write_old(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("old", f);
    fclose(f);
}

TEST(test_the_old_file_stays_until_the_new_one_is_whole) {
    char path[512], fresh[520], link[512];
    snprintf(path, sizeof path, "%s", test_path("replaced"));
    snprintf(link, sizeof link, "%s", test_path("replaced-link"));
    snprintf(fresh, sizeof fresh, "%s.new", path);
    write_old(path);
    assert_int_equal(chmod(path, 0640) | symlink(path, link), 0);
    for (int keep = 0; keep < 2; keep++) {
        FILE *f = replace_begin(link);
        assert_non_null(f);
        fputs("new", f);
        fflush(f);
        assert_string_equal(text_of(path), "old");
        assert_true(replace_end(link, f, keep));
        assert_string_equal(text_of(link), keep ? "new" : "old");
        assert_null(text_of(fresh));
    }
    struct stat info;
    assert_int_equal(lstat(link, &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0640);
}

TEST(test_devices_are_written_as_they_are) {
    FILE *f = replace_begin("/dev/full");
    assert_non_null(f);
    fputs("new", f);
    assert_false(replace_end("/dev/full", f, true));
    assert_null(replace_begin(test_path("no/such/folder")));
}

/* ---- the parent folder of a path; tests/more/durable.sh checks the flush ---- */
TEST(test_the_folder_of_a_name_is_flushed) {
    char here[4096];
    const char *folder = test_path("durable");
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_ok(durable_folder(folder));
    assert_ok(durable_name(folder));
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("a", 0700), 0);
    assert_ok(durable_name("a"));
    assert_ok(durable_name("a/"));
    assert_ok(durable_name("./a//b"));
    assert_ok(durable_name("/tmp"));
    assert_fails(durable_name("none/b"), E_IO, "none");
    assert_fails(durable_folder("none"), E_IO, "cannot open none", "No such file");
    assert_int_equal(chdir(here), 0);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void is_text(const char *path, const char *text) {
    char found[64] = "";
    FILE *f;
    assert_int_equal(input_file("", path, INPUT_FILE | INPUT_KEPT, &f), OK);
    size_t n = fread(found, 1, sizeof found - 1, f);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(n, strlen(text));
    assert_string_equal(found, text);
}

TEST(test_first_bytes_are_kept) {
    char path[] = "/tmp/trivium-kept-XXXXXX", empty[] = "/tmp/trivium-kept-XXXXXX";
    close(mkstemp(path));
    close(mkstemp(empty));
    write_text(path, "one");
    is_text(path, "one");
    write_text(path, "two");
    is_text(path, "two");                    /* before kept_begin */
    assert_int_equal(kept_hash(), 0);
    kept_begin();
    kept_early(path);
    uint64_t hash = kept_hash();
    assert_int_not_equal(hash, 0);
    write_text(path, "three");
    is_text(path, "two");
    is_text(empty, "");
    unlink(path);
    unlink(empty);
    is_text(path, "two");
    is_text(empty, "");
    assert_int_not_equal(kept_hash(), hash);
    kept_end();
    assert_int_equal(kept_hash(), 0);
    FILE *f;
    assert_int_equal(input_file("", path, INPUT_FILE | INPUT_KEPT, &f), E_DATA);
    status_clear();
    assert_int_equal(input_file("", "/tmp/trivium-kept-that-is-not-there", INPUT_FILE | INPUT_KEPT, &f), E_DATA);
    status_clear();
}

/* Links, FIFOs and folders that another user created under the file's name. */

static char dir[4096], path[4200], other[4200];

static void begin(void) {
    snprintf(dir, sizeof dir, "%s", test_path("shared"));
    assert_true(mkdir(dir, 0777) == 0 || errno == EEXIST);
    snprintf(path, sizeof path, "%s/name", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    unlink(path);
    rmdir(path);
    unlink(other);
}
static void put(const char *where, const char *text) {
    FILE *f = fopen(where, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
static void assert_text(const char *where, const char *text) {
    char is[64] = "";
    FILE *f = fopen(where, "r");
    assert_non_null(f);
    size_t n = fread(is, 1, sizeof is - 1, f);
    fclose(f);
    is[n] = 0;
    assert_string_equal(is, text);
}
static void assert_refused(enum shared_use use, int error, const char *why) {
    errno = 0;
    assert_int_equal(shared_open(path, use, 0666), -1);
    assert_int_equal(errno, error);
    assert_non_null(strstr(shared_why(error), why));
}

TEST(test_a_link_is_never_followed) {
    begin();
    put(other, "precious");
    assert_int_equal(symlink(other, path), 0);
    assert_refused(SHARED_READ, ELOOP, "link");
    assert_refused(SHARED_UPDATE, ELOOP, "link");
    int fd = shared_open(path, SHARED_NEW, 0600);            /* a new file replaces the link */
    assert_true(fd >= 0 && write(fd, "x", 1) == 1);
    close(fd);
    assert_text(other, "precious");
    assert_text(path, "x");
}

TEST(test_a_second_name_is_not_written_to) {
    begin();
    put(other, "precious");
    assert_int_equal(link(other, path), 0);
    assert_refused(SHARED_UPDATE, EMLINK, "another name");
    FILE *f = shared_create(path);
    assert_non_null(f);
    fputs("new", f);
    fclose(f);
    assert_text(other, "precious");
    assert_text(path, "new");
}

/* A plain open() of a FIFO without a writer waits forever; then the alarm kills the test. */
TEST(test_what_is_no_file_is_refused_at_once) {
    begin();
    alarm(20);
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_refused(SHARED_READ, EINVAL, "no regular file");
    assert_refused(SHARED_UPDATE, EINVAL, "no regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0777), 0);
    assert_refused(SHARED_READ, EINVAL, "no regular file");
    assert_refused(SHARED_UPDATE, EISDIR, "no regular file");
    rmdir(path);
    alarm(0);
}

TEST(test_a_file_of_ones_own_is_opened) {
    begin();
    assert_refused(SHARED_READ, ENOENT, strerror(ENOENT));
    int fd = shared_open(path, SHARED_UPDATE, 0640);
    assert_true(fd >= 0 && write(fd, "some", 4) == 4 && (fcntl(fd, F_GETFD) & FD_CLOEXEC));
    close(fd);
    fd = shared_open(path, SHARED_UPDATE, 0640);             /* keeps the content */
    char text[8];
    assert_int_equal(read(fd, text, sizeof text), 4);
    close(fd);
    fd = shared_open(path, SHARED_NEW, 0640);
    assert_int_equal(lseek(fd, 0, SEEK_END), 0);
    close(fd);
}

TEST(test_ones_own_folder_is_closed_to_others) {
    begin();
    char mine[4200], again[4200];
    struct stat is;
    assert_ok(shared_folder(dir, mine, sizeof mine));
    assert_true(stat(mine, &is) == 0 && S_ISDIR(is.st_mode) && (is.st_mode & 0777) == 0700 && is.st_uid == geteuid());
    assert_ok(shared_folder_name(dir, again, sizeof again));
    assert_string_equal(mine, again);
    assert_int_equal(chmod(mine, 0777), 0);
    assert_ok(shared_folder(dir, again, sizeof again));
    assert_true(stat(mine, &is) == 0 && (is.st_mode & 0777) == 0700);
    rmdir(mine);
    put(mine, "a file");
    assert_fails(shared_folder(dir, again, sizeof again), E_IO, mine, "no folder");
    unlink(mine);
    assert_int_equal(symlink(dir, mine), 0);
    assert_fails(shared_folder(dir, again, sizeof again), E_IO, mine, "link");
    unlink(mine);
    assert_fails(shared_folder("/proc", again, sizeof again), E_IO, "/proc/trivium-");
    assert_fails(shared_folder(dir, again, 8), E_CONFIG, "7 bytes");
    if (geteuid() != 0) return;
    assert_int_equal(mkdir(mine, 0777), 0);
    assert_int_equal(chown(mine, 65534, 65534), 0);
    assert_fails(shared_folder(dir, again, sizeof again), E_IO, mine, "another user's (65534)");
    rmdir(mine);
}

TESTS(unit_test(test_the_old_file_stays_until_the_new_one_is_whole), unit_test(test_devices_are_written_as_they_are),
      unit_test(test_the_folder_of_a_name_is_flushed), unit_test(test_first_bytes_are_kept),
      unit_test(test_a_link_is_never_followed), unit_test(test_a_second_name_is_not_written_to),
      unit_test(test_what_is_no_file_is_refused_at_once), unit_test(test_a_file_of_ones_own_is_opened),
      unit_test(test_ones_own_folder_is_closed_to_others))
