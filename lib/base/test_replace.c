/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* mkstemp */
#include "lib/base/replace.h"
#include "lib/base/kept.h"
#include "tests/test.h"
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

TESTS(unit_test(test_the_old_file_stays_until_the_new_one_is_whole), unit_test(test_devices_are_written_as_they_are),
      unit_test(test_the_folder_of_a_name_is_flushed), unit_test(test_first_bytes_are_kept))
