/* ranks: 1  device: cpu
 *
 * Odd files, with the result of the reader of safetensors 0.8 (the library of the format's authors). words NULL: the
 * file is read. `stricter`: the library reads the file, but Trivium refuses it, because jansson or Trivium cannot
 * represent it. */
#include "lib/checkpoint/safetensors.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define T(name, dtype, shape, begin, end)                                                                              \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"
#define A T("a", "F32", "[2,3]", 0, 24)
#define META(value) "{\"__metadata__\":" value "," A "}"

/* A header, the bytes after it, the zeros at its end, the number of tensors, and words of the error. */
static const struct row { const char *header; int bytes, zeros, n; const char *words; bool stricter; } ROWS[] = {
    {"{" A "}", 24, 0, 1, NULL, false},
    {"{" A "}     ", 24, 0, 1, NULL, false},                         /* writers pad with blanks */
    {"{" A "}", 24, 3, 1, "not JSON", false},                        /* zeros are refused */
    {"  {" A "}", 24, 0, 1, NULL, false},
    {"{}", 0, 0, 0, NULL, false},
    {"{}", 4, 0, 0, "appended", false},
    {"[]", 0, 0, 0, "not a JSON object", false},
    /* metadata */
    {META("{}"), 24, 0, 1, NULL, false},
    {META("{\"format\":\"pt\"}"), 24, 0, 1, NULL, false},
    {META("null"), 24, 0, 1, NULL, false},
    {META("{\"a\":1}"), 24, 0, 1, "a of its __metadata__ is no text", false},
    {META("{\"a\":true}"), 24, 0, 1, "no text", false},
    {META("{\"a\":null}"), 24, 0, 1, "no text", false},
    {META("{\"a\":{\"b\":\"c\"}}"), 24, 0, 1, "no text", false},
    {META("[\"a\"]"), 24, 0, 1, "no object of texts", false},
    {META("\"a\""), 24, 0, 1, "no object of texts", false},
    {"{\"__metadata__\":{},\"__metadata__\":{}," A "}", 24, 0, 1, "duplicate", false},
    {META("{\"a\":\"b\",\"a\":\"c\"}"), 24, 0, 1, "duplicate", true},
    /* element types */
    {"{" T("b", "F8_E4M3", "[4]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "F8_E5M2", "[4]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "F8_E8M0", "[4]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "F8_E4M3FNUZ", "[4]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "F8_E5M2FNUZ", "[4]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "F6_E2M3", "[4]", 0, 3) "}", 3, 0, 1, NULL, false},
    {"{" T("b", "F6_E3M2", "[2,2]", 0, 3) "}", 3, 0, 1, NULL, false},
    {"{" T("b", "F6_E3M2", "[3]", 0, 3) "}", 3, 0, 1, "3 elements of F6_E3M2", false},   /* 18 bits */
    {"{" T("b", "F4", "[4]", 0, 2) "}", 2, 0, 1, NULL, false},
    {"{" T("b", "F4", "[3]", 0, 1) "}", 1, 0, 1, "3 elements of F4", false},
    {"{" T("b", "F4", "[3]", 0, 2) "}", 2, 0, 1, "3 elements of F4", false},
    {"{" T("b", "C64", "[2]", 0, 16) "}", 16, 0, 1, NULL, false},
    {"{" T("b", "U64", "[2]", 0, 16) "}", 16, 0, 1, NULL, false},
    {"{" T("b", "I16", "[2]", 0, 4) "," T("c", "U16", "[0]", 4, 4) "}", 4, 0, 2, NULL, false},
    {"{" T("b", "BOOL", "[1,1,2,2]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "F12", "[2]", 0, 3) "}", 3, 0, 1, "dtype F12", false},
    {"{" T("b", "f32", "[1]", 0, 4) "}", 4, 0, 1, "dtype f32", false},
    /* shapes and places */
    {"{" T("b", "F32", "[]", 0, 4) "}", 4, 0, 1, NULL, false},
    {"{" T("b", "U8", "[0,9223372036854775807,4]", 0, 0) "}", 0, 0, 1, NULL, false},
    {"{" T("b", "U8", "[4294967296,4294967296,4]", 0, 0) "}", 0, 0, 1, "too large", false},
    {"{" T("b", "U8", "[2.0]", 0, 2) "}", 2, 0, 1, "not a size", false},
    {"{" T("b", "U8", "[-2]", 0, 2) "}", 2, 0, 1, "not a size", false},
    {"{" T("b", "U8", "[null]", 0, 2) "}", 2, 0, 1, "not a size", false},
    {"{" T("b", "U8", "[1,1,1,1,1,1,1,1,2]", 0, 2) "}", 2, 0, 1, "at most 8 axes", true},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,24]}}", 24, 0, 1, "no shape", false},
    {"{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2,2]}}", 2, 0, 1, "no data_offsets", false},
    {"{\"a\":{\"quant\":1,\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, 0, 1, NULL, false},
    {"{\"a\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}", 2, 0, 1, "duplicate", false},
    {"{" T("b", "U8", "[4]", 24, 28) "," A "}", 28, 0, 2, NULL, false},                  /* in any order */
    {"{" A "," T("b", "U8", "[0]", 24, 24) "," T("c", "U8", "[0]", 24, 24) "}", 24, 0, 3, NULL, false},
    {"{" A "," T("b", "U8", "[0]", 8, 8) "}", 24, 0, 2, "overlap", false},
    {"{" A "," T("b", "U8", "[4]", 20, 24) "}", 24, 0, 2, "overlap", false},
    {"{" A "," T("b", "U8", "[4]", 28, 32) "}", 32, 0, 2, "hole", false},
    {"{" A "," T("b", "U8", "[0]", 24, 20) "}", 24, 0, 2, "bytes 24 to 20", false},
    {"{" A "}", 32, 0, 1, "appended", false},
    {"{" A "}", 20, 0, 1, "truncated", false},
    {"{" A "," A "}", 24, 0, 1, "duplicate", true},
    /* names */
    {"{" T("", "U8", "[2]", 0, 2) "}", 2, 0, 1, NULL, false},
    {"{" T("\xc3\xa4\xf0\x9f\x98\x80", "U8", "[2]", 0, 2) "}", 2, 0, 1, NULL, false},
    {"{" T("\\ud800", "U8", "[2]", 0, 2) "}", 2, 0, 1, "not JSON", false},
    {"{" T("a\\u0000b", "U8", "[2]", 0, 2) "}", 2, 0, 1, "not JSON", true},
};

static const char *file_of(const char *header, size_t length, int zeros, int bytes) {
    const char *path = test_path("odd.safetensors");
    FILE *f = fopen(path, "wb");
    uint64_t n = length + (size_t)zeros;
    assert_non_null(f);
    fwrite(&n, 1, sizeof n, f);
    fwrite(header, 1, length, f);
    for (int i = 0; i < zeros + bytes; i++) fputc(0, f);
    fclose(f);
    return path;
}

TEST(test_odd_files_are_read_or_refused_as_by_the_formats_own_reader) {
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        const struct row *r = &ROWS[i];
        struct safetensors *f;
        enum status status = safetensors_open(file_of(r->header, strlen(r->header), r->zeros, r->bytes), &f);
        bool right = r->words ? status == E_FORMAT && strstr(status_message(), r->words)
                              : status == OK && safetensors_n(f) == r->n;
        if (!right) print_message("%s: %s\n", r->header, status == OK ? "read" : status_message());
        assert_true(right);
        status_clear();
        safetensors_close(&f);
    }
}

/* A text of 17 MB is below the limit of 100 MB. 17 million values are refused, because they take too much memory. */
TEST(test_a_header_may_be_long_and_not_hold_millions_of_values) {
    enum { LONG = 17 << 20 };
    static const char begin[] = "{\"__metadata__\":{\"x\":\"", end[] = "\"}," A "}";
    struct safetensors *f;
    char *header = malloc(LONG + sizeof begin + sizeof end);
    memcpy(header, begin, sizeof begin - 1);
    memset(header + sizeof begin - 1, '[', LONG);
    memcpy(header + sizeof begin - 1 + LONG, end, sizeof end);
    assert_ok(safetensors_open(file_of(header, strlen(header), 0, 24), &f));
    assert_int_equal(strlen(safetensors_metadata(f, "x")), LONG);
    safetensors_close(&f);
    header[sizeof begin - 2] = '[';                                  /* makes the text a list of lists */
    assert_fails(safetensors_open(file_of(header, strlen(header), 0, 24), &f), E_FORMAT, "values; the limit is 4194304",
                 "several files");
    free(header);
}

TESTS(unit_test(test_odd_files_are_read_or_refused_as_by_the_formats_own_reader),
      unit_test(test_a_header_may_be_long_and_not_hold_millions_of_values))
