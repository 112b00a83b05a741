/* ranks: 1  device: cpu */
#include "lib/base/durable.h"
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

TESTS(unit_test(test_the_old_file_stays_until_the_new_one_is_whole), unit_test(test_devices_are_written_as_they_are),
      unit_test(test_the_folder_of_a_name_is_flushed))
