/* ranks: 1  device: cpu  Files that are no JSON, that make open() wait, or that take too much memory when parsed. */
#include "lib/base/json_file.h"

#include "tests/test.h"
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[64];
static json_t *json;

static void write_text(const char *text, int times) {
    snprintf(path, sizeof path, "/tmp/trivium-json-%d", (int)getpid());
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < times; i++) fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

TEST(test_a_file_is_read) {
    write_text("{\"a\": [1, 2, 3]}", 1);
    assert_ok(json_file_read(path, 1024, 0, &json));
    assert_int_equal(json_array_size(json_object_get(json, "a")), 3);
    json_decref(json);
    unlink(path);
}

TEST(test_what_is_too_large_is_refused) {
    write_text("[1234567890]", 100);
    assert_fails(json_file_read(path, 1199, 0, &json), E_FORMAT, "1200 bytes", "the limit is 1199");
    write_text("[{},", 100);                                         /* 300 values in 400 bytes of text */
    assert_fails(json_file_read(path, 1024, 0, &json), E_FORMAT, "300 values", "the limit is 64");
    write_text("\"[[[[[[[[[[{,,,\\\"{\"", 1);
    assert_fails(json_file_read(path, 64, 0, &json), E_FORMAT, "is not JSON");   /* strings hold no values */
    write_text("{\"a\": ", 1);
    assert_fails(json_file_read(path, 1024, 0, &json), E_FORMAT, "is not JSON", "line 1");
    assert_null(json);
    unlink(path);
}

TEST(test_what_waits_is_refused) {
    write_text("", 1);
    unlink(path);
    assert_fails(json_file_read(path, 1024, 0, &json), E_DATA, "cannot read");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(json_file_read(path, 1024, 0, &json), E_DATA, "is not a regular file");
    unlink(path);
    assert_fails(json_file_read("/dev/zero", 1024, 0, &json), E_DATA, "is not a regular file");
}

TESTS(unit_test(test_a_file_is_read), unit_test(test_what_is_too_large_is_refused),
      unit_test(test_what_waits_is_refused))
