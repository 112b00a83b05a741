/* ranks: 1  device: cpu */
/* Files of the format: a written file is read back, and follows the format's rules; a file that breaks a rule is
 * refused in one line. */
#include "lib/checkpoint/safetensors.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

/* Write a file with this header and data_bytes bytes after it. */
static const char *file_of(const char *header, int64_t data_bytes) {
    const char *path = test_path("hostile.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    uint64_t n = strlen(header);
    for (int i = 0; i < 8; i++) fputc((int)(n >> 8 * i & 255), f);
    fputs(header, f);
    for (int64_t i = 0; i < data_bytes; i++) fputc((int)i & 255, f);
    fclose(f);
    return path;
}

#define REFUSED(header, bytes, ...) \
    do { \
        struct safetensors *file_; \
        assert_fails(safetensors_open(file_of(header, bytes), &file_), E_FORMAT, "hostile.safetensors", __VA_ARGS__); \
        assert_null(file_); \
    } while (0)

/* ---- the format's rules ---- */

TEST(test_a_file_by_hand_is_read) {
    struct safetensors *f;
    assert_ok(safetensors_open(file_of("{\"b\":{\"dtype\":\"U8\",\"shape\":[2,2],\"data_offsets\":[8,12]},\"a\":{"
                                       "\"dtype\":\"F32\",\"shape\":[2],"
                                       "\"data_offsets\":[0,8]},\"s\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":"
                                       "[12,20]},\"__metadata__\":{\"format\":\"pt\"}}  ",
                                       20),
                               &f));
    assert_int_equal(safetensors_n(f), 3);
    assert_string_equal(safetensors_at(f, 0)->name, "a");           /* in the order of the bytes */
    assert_string_equal(safetensors_metadata(f, "format"), "pt");
    assert_null(safetensors_metadata(f, "other"));
    const struct safetensors_entry *b = safetensors_find(f, "b"), *s = safetensors_find(f, "s");
    assert_true(b->dtype == UINT8 && b->n_axes == 2 && b->shape[0] == 2 && b->shape[1] == 2);
    assert_true(s->dtype == N_DTYPES && s->n_axes == 0);
    assert_string_equal(s->dtype_name, "I64");
    unsigned char bytes[3];
    assert_ok(safetensors_read(f, b, 1, 3, bytes));
    assert_true(bytes[0] == 9 && bytes[1] == 10 && bytes[2] == 11);
    assert_fails(safetensors_read(f, b, 2, 3, bytes), E_INTERNAL, "tensor b, which has 4");
    assert_null(safetensors_find(f, "c"));
    safetensors_close(&f);
}

TEST(test_an_empty_file_of_tensors_is_one) {
    struct safetensors *f;
    assert_ok(safetensors_open(file_of("{}", 0), &f));
    assert_int_equal(safetensors_n(f), 0);
    safetensors_close(&f);
}

#define ONE(dtype, shape, offsets) "{\"w\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

TEST(test_what_breaks_a_rule_is_refused) {
    REFUSED("", 0, "not JSON");
    REFUSED("[1]", 0, "not a JSON object");
    REFUSED("{\"w\":{\"dtype\":\"F32\",\"shape\":[2]", 8, "not JSON");
    REFUSED(ONE("F33", "[2]", "[0,8]"), 8, "dtype F33");
    REFUSED("{\"w\":7}", 8, "tensor w", "dtype none");
    REFUSED(ONE("F32", "2", "[0,8]"), 8, "no shape");
    REFUSED(ONE("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8, "at most 8 axes");
    REFUSED(ONE("F32", "[-2]", "[0,8]"), 8, "axis 0 of tensor w");
    REFUSED(ONE("F32", "[2.5]", "[0,8]"), 8, "axis 0 of tensor w");
    REFUSED(ONE("F32", "[4294967296,4294967296]", "[0,8]"), 8, "axis 1 of tensor w", "too large");
    REFUSED(ONE("F32", "[4611686018427387904]", "[0,0]"), 0, "truncated");   /* times 4 is 0 in 64 bits */
    REFUSED(ONE("F32", "[2]", "[0]"), 8, "no data_offsets");
    REFUSED(ONE("F32", "[2]", "[-8,0]"), 8, "no data_offsets");
    REFUSED(ONE("F32", "[2]", "[0,9]"), 9, "bytes 0 to 9");
    REFUSED(ONE("F32", "[2]", "[8,0]"), 8, "bytes 8 to 0");
    REFUSED(ONE("F32", "[2]", "[0,8]"), 7, "of 7", "truncated");
    REFUSED(ONE("F32", "[2]", "[0,8]"), 9, "end at byte 8 of 9");
    REFUSED(ONE("F32", "[2]", "[1,9]"), 9, "hole");
    REFUSED("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
            "\"data_offsets\":[2,6]}}",
            6, "overlap");
    REFUSED("{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],"
            "\"data_offsets\":[1,2]}}",
            2, "not JSON", "duplicate");
}

static const char *raw_file(const void *bytes, size_t n) {
    const char *path = test_path("hostile.safetensors");
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(bytes, 1, n, f);
    fclose(f);
    return path;
}

TEST(test_a_length_is_not_trusted) {
    struct safetensors *f;
    const unsigned char huge[12] = {255, 255, 255, 255, 255, 255, 255, 255, 123, 125};
    const unsigned char more[10] = {1, 0xe1, 0xf5, 5, 0, 0, 0, 0, 123, 125};
    assert_fails(safetensors_open(raw_file("{}", 2), &f), E_FORMAT, "has 2 bytes", "at least 8");
    assert_fails(safetensors_open(raw_file(huge, sizeof huge), &f), E_FORMAT, "18446744073709551615",
                 "limit is 100000000");
    assert_fails(safetensors_open(raw_file(more, sizeof more), &f), E_FORMAT, "100000001", "limit is 100000000");
    assert_fails(safetensors_open("/nowhere/at-all", &f), E_DATA, "/nowhere/at-all");
    assert_fails(safetensors_open("/tmp", &f), E_DATA, "not a regular file");
}

/* ---- writing ---- */

TEST(test_what_is_written_is_read_back) {
    const char *path = test_path("written.safetensors");
    struct safetensors_entry entries[] = {{.name = (char *)"h0.w", .dtype = BF16, .n_axes = 2, .shape = {3, 2}},
                                          {.name = (char *)"empty", .dtype = FP32, .n_axes = 1, .shape = {0}},
                                          {.name = (char *)"x", .dtype = FP64, .n_axes = 0}};
    const struct safetensors_pair metadata[] = {{"format", "trivium"}, {"quote", "\"\\ é"}};
    uint16_t w[6] = {1, 2, 3, 4, 5, 6}, back[6];
    double x = 0.1;
    struct safetensors_writer *writer;
    int64_t bytes;
    uint64_t hash;
    unlink(path);
    assert_ok(safetensors_create(path, entries, 3, metadata, 2, &writer));
    assert_ok(safetensors_append(writer, w, 4));                     /* in parts that split tensors */
    assert_ok(safetensors_append(writer, w + 2, 8));
    assert_ok(safetensors_append(writer, &x, 8));
    assert_fails(safetensors_append(writer, &x, 1), E_INTERNAL, "1 more would go beyond");
    assert_ok(safetensors_finish(&writer, &bytes, &hash));
    assert_null(writer);
    struct stat info;
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, bytes);
    char *all = malloc((size_t)bytes);
    FILE *f = fopen(path, "rb");
    assert_true(f && fread(all, 1, (size_t)bytes, f) == (size_t)bytes);
    fclose(f);
    assert_true(XXH3_64bits(all, (size_t)bytes) == hash);
    assert_int_equal((all[0] & 255) % 8, 0);                         /* the header is padded, so that tensors begin at
                                                                      * a multiple of 8 */
    free(all);
    struct safetensors *file;
    assert_ok(safetensors_open(path, &file));
    assert_string_equal(safetensors_metadata(file, "quote"), "\"\\ é");
    assert_ok(safetensors_read(file, safetensors_find(file, "h0.w"), 0, 12, back));
    assert_memory_equal(back, w, sizeof w);
    assert_int_equal(safetensors_find(file, "h0.w")->dtype, BF16);
    assert_int_equal(safetensors_find(file, "empty")->end - safetensors_find(file, "empty")->begin, 0);
    safetensors_close(&file);
    assert_fails(safetensors_create(path, entries, 3, metadata, 2, &writer), E_IO, "exists");
    assert_null(writer);
}

TEST(test_an_unfinished_file_is_no_success) {
    const char *path = test_path("unfinished.safetensors");
    struct safetensors_entry entry = {.name = (char *)"w", .dtype = FP32, .n_axes = 1, .shape = {4}};
    struct safetensors_writer *writer;
    int64_t bytes;
    uint64_t hash;
    float w[2] = {1, 2};
    assert_ok(safetensors_create(path, &entry, 1, NULL, 0, &writer));
    assert_ok(safetensors_append(writer, w, 8));
    assert_fails(safetensors_finish(&writer, &bytes, &hash), E_INTERNAL, "of its");
    assert_null(writer);
    assert_fails(safetensors_create("/proc/none/x", &entry, 1, NULL, 0, &writer), E_IO, "/proc/none/x");
}

TEST(test_a_full_disk_is_named) {
    if (access("/dev/full", W_OK) != 0) skip();
    const char *path = test_path("full.safetensors");
    struct safetensors_entry entry = {.name = (char *)"w", .dtype = FP32, .n_axes = 1, .shape = {4}};
    struct safetensors_writer *writer;
    unlink(path);
    assert_int_equal(symlink("/dev/full", path), 0);
    assert_fails(safetensors_create(path, &entry, 1, NULL, 0, &writer), E_IO, "full.safetensors");
    unlink(path);
}

/* Odd files, with the result of the reader of safetensors 0.8 (the library of the format's authors). words NULL: the
 * file is read. `stricter`: the library reads the file, but Trivium refuses it, because jansson or Trivium cannot
 * represent it. */
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

static const char *bytes_of(const char *header, size_t length, int zeros, int bytes) {
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
        enum status status = safetensors_open(bytes_of(r->header, strlen(r->header), r->zeros, r->bytes), &f);
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
    assert_ok(safetensors_open(bytes_of(header, strlen(header), 0, 24), &f));
    assert_int_equal(strlen(safetensors_metadata(f, "x")), LONG);
    safetensors_close(&f);
    header[sizeof begin - 2] = '[';                                  /* makes the text a list of lists */
    assert_fails(safetensors_open(bytes_of(header, strlen(header), 0, 24), &f), E_FORMAT, "values; the limit is "
                 "4194304", "several files");
    free(header);
}

TESTS(unit_test(test_a_file_by_hand_is_read), unit_test(test_an_empty_file_of_tensors_is_one),
      unit_test(test_what_breaks_a_rule_is_refused), unit_test(test_a_length_is_not_trusted),
      unit_test(test_what_is_written_is_read_back), unit_test(test_an_unfinished_file_is_no_success),
      unit_test(test_a_full_disk_is_named), unit_test(test_odd_files_are_read_or_refused_as_by_the_formats_own_reader),
      unit_test(test_a_header_may_be_long_and_not_hold_millions_of_values))
