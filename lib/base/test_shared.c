/* ranks: 1  device: cpu */
/* Links, FIFOs and folders that another user created under the file's name. */
#include "lib/base/shared.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

TESTS(unit_test(test_a_link_is_never_followed), unit_test(test_a_second_name_is_not_written_to),
      unit_test(test_what_is_no_file_is_refused_at_once), unit_test(test_a_file_of_ones_own_is_opened),
      unit_test(test_ones_own_folder_is_closed_to_others))
