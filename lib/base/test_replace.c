/* ranks: 1  device: cpu */
#include "lib/base/replace.h"
#include "tests/test.h"
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

TESTS(unit_test(test_the_old_file_stays_until_the_new_one_is_whole), unit_test(test_devices_are_written_as_they_are))
