/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* mkstemp */
#include "tests/test.h"

#include "lib/base/kept.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

TESTS(unit_test(test_first_bytes_are_kept))
