/* ranks: 1  device: cpu */
/* llm.c's model files: weights in their order, padding removed and added, and false headers. */
#include "models/gpt/gpt_llmc.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { L = 2, C = 8, H = 2, T = 4, V = 5, PADDED = 7, HEADER_BYTES = 1024 };
/* Elements of a layer's weights, in the order of the file: ln1w ln1b qkvw qkvb attprojw attprojb ln2w ln2b fcw fcb
 * fcprojw fcprojb */
static const int PER_LAYER[12] = {C, C, 3 * C * C, 3 * C, C * C, C, C, C, 4 * C * C, 4 * C, 4 * C * C, C};
static const char *const OURS[12] = {"ln1.g", "ln1.b", "qkv.w", "qkv.b", "proj.w", "proj.b", "ln2.g", "ln2.b", "fc.w",
                                     "fc.b", "fc2.w", "fc2.b"};
#define WHOLE(letter, size) {.tag = letter, .n = size, .global = size}
static const struct shape SHAPES[12] = {
    {1, {WHOLE('C', C)}}, {1, {WHOLE('C', C)}}, {4, {WHOLE('3', 3), WHOLE('H', H), WHOLE('D', C / H), WHOLE('C', C)}},
    {3, {WHOLE('3', 3), WHOLE('H', H), WHOLE('D', C / H)}}, {3, {WHOLE('C', C), WHOLE('H', H), WHOLE('D', C / H)}},
    {1, {WHOLE('C', C)}},
    {1, {WHOLE('C', C)}}, {1, {WHOLE('C', C)}}, {2, {WHOLE('K', 4 * C), WHOLE('C', C)}}, {1, {WHOLE('K', 4 * C)}},
    {2, {WHOLE('C', C), WHOLE('K', 4 * C)}}, {1, {WHOLE('C', C)}}};

static int64_t all_elements(int padded) {
    int64_t n = padded * C + T * C + 2 * C;
    for (int i = 0; i < 12; i++) n += L * PER_LAYER[i];
    return n;
}

/* ---- files by hand: element i is i mod 251, which bf16 holds exactly ---- */

static const int32_t HEADER[8] = {20240326, 3, T, V, L, H, C, PADDED};

static double value(int64_t i) { return (double)(i % 251); }

static const char *file_of(const int32_t header[8], int64_t elements) {
    const char *path = test_path("model.bin");
    enum dtype dtype = header[1] == 5 ? BF16 : FP32;
    int32_t all[256] = {0};
    memcpy(all, header, 8 * sizeof *header);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(all, sizeof all, 1, f);
    for (int64_t i = 0; i < elements; i++) {
        char x[8];
        dtype_set(x, dtype, 0, value(i));
        fwrite(x, dtype_size(dtype), 1, f);
    }
    fclose(f);
    return path;
}

static const char *new_save(void) {
    static int n;
    char name[32];
    snprintf(name, sizeof name, "llmc-save-%d", n++);
    return test_path(name);
}

static void check_weight(const struct checkpoint_reader *r, const char *name, const struct shape *shape, int64_t at) {
    double x[4 * C * C];
    assert_ok(checkpoint_read_weight(r, name, shape, FP64, x));
    for (int64_t i = 0; i < shape_n(shape); i++) assert_close(x[i], value(at + i), 0);
}

static void check_places(const struct checkpoint_reader *r, int padded) {
    const struct shape wte = {2, {axis_whole('V', V), axis_whole('C', C)}},
    wpe = {2, {axis_whole('T', T), axis_whole('C', C)}};
    int64_t at = (padded + T) * C;
    check_weight(r, "embed.wte", &wte, 0);
    check_weight(r, "embed.wpe", &wpe, padded * C);
    for (int i = 0; i < 12; i++)
        for (int l = 0; l < L; l++, at += PER_LAYER[i]) {
            char name[32];
            snprintf(name, sizeof name, "h%d.%s", l, OURS[i]);
            check_weight(r, name, &SHAPES[i], at);
        }
    check_weight(r, "head.lnf.g", &SHAPES[0], at);
    check_weight(r, "head.lnf.b", &SHAPES[0], at + C);
}

static void check_import(int version) {
    struct checkpoint_model out;
    struct checkpoint_reader *r;
    enum dtype stored;
    int32_t header[8];
    const char *save = new_save();
    memcpy(header, HEADER, sizeof header);
    header[1] = version;
    assert_ok(gpt_llmc_import(file_of(header, all_elements(PADDED)), 0, save, &out));
    assert_true(out.layers == L && out.hidden == C && out.heads == H && out.seq == T && out.vocab == V);
    assert_ok(checkpoint_open(save, &r));
    assert_ok(checkpoint_weight_dtype(r, "embed.wte", &stored));
    assert_int_equal(stored, version == 5 ? BF16 : FP32);
    check_places(r, PADDED);
    checkpoint_close(&r);
}

TEST(test_weights_are_found_in_their_order) {
    check_import(3);
    check_import(5);
}

/* ---- export: the same weights, with wte padded to 128 rows ---- */

static void check_export(enum dtype dtype, int version) {
    struct checkpoint_model out;
    struct checkpoint_reader *r;
    const char *save = new_save(), *path = test_path(dtype == BF16 ? "out5.bin" : "out3.bin");
    assert_ok(gpt_llmc_import(file_of(HEADER, all_elements(PADDED)), 0, save, &out));
    assert_ok(checkpoint_open(save, &r));
    assert_ok(gpt_llmc_export(r, dtype, path));
    assert_fails(gpt_llmc_export(r, dtype, path), E_IO, path, "exists");
    checkpoint_close(&r);
    int64_t size = (int64_t)dtype_size(dtype), bytes = all_elements(128) * size;
    int32_t header[256];
    char *x = malloc((size_t)bytes);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(header, sizeof header, 1, f), 1);
    assert_int_equal(fread(x, 1, (size_t)bytes, f), bytes);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    const int32_t expected[8] = {20240326, version, T, V, L, H, C, 128};
    assert_memory_equal(header, expected, sizeof expected);
    for (int i = 8; i < 256; i++) assert_int_equal(header[i], 0);
    for (int64_t i = 0; i < 128 * C; i++) assert_close(dtype_get(x, dtype, i), i < V * C ? value(i) : 0, 0);
    for (int64_t i = 128 * C; i < all_elements(128); i++)
        assert_close(dtype_get(x, dtype, i), value(i - (128 - PADDED) * C), 0);
    free(x);
}

TEST(test_an_exported_file_is_padded_with_zeros) {
    check_export(FP32, 3);
    check_export(BF16, 5);
}

/* ---- refusals ---- */

static enum status import_with(int place, int32_t x, int64_t elements) {
    struct checkpoint_model out;
    int32_t header[8];
    memcpy(header, HEADER, sizeof header);
    header[place] = x;
    return gpt_llmc_import(file_of(header, elements), 0, new_save(), &out);
}

TEST(test_headers_that_lie_are_refused) {
    int64_t n = all_elements(PADDED);
    assert_fails(import_with(0, 20240520, n), E_FORMAT, "model.bin", "20240520", "20240326");
    assert_fails(import_with(1, 1, n), E_FORMAT, "version 1", "versions 3 (fp32) and 5 (bf16)");
    assert_fails(import_with(2, 0, n), E_FORMAT, "seq=0");
    assert_fails(import_with(3, -1, n), E_FORMAT, "vocab=-1");
    assert_fails(import_with(3, PADDED + 1, n), E_FORMAT, "padded_vocab_size is 7", "8");
    assert_fails(import_with(4, 3, n), E_FORMAT, "truncated");
    assert_fails(import_with(4, 2000000000, n), E_FORMAT, "layers=2000000000");
    assert_fails(import_with(5, 3, n), E_FORMAT, "heads=3", "hidden=8");
    assert_fails(import_with(5, 0, n), E_FORMAT, "heads=0");
    assert_fails(import_with(6, 2147483646, n), E_FORMAT, "hidden=2147483646");
    assert_fails(import_with(7, 2147483647, n), E_FORMAT, "truncated");
    assert_fails(import_with(1, 3, n - 1), E_FORMAT, "truncated");
    assert_fails(import_with(1, 3, n + 1), E_FORMAT, "too long");
    assert_fails(import_with(1, 5, 2 * n), E_FORMAT, "too long");
}

TEST(test_what_is_no_file_of_llmc_is_refused) {
    struct checkpoint_model out;
    const char *path = file_of(HEADER, 0);
    assert_int_equal(truncate(path, HEADER_BYTES - 1), 0);
    assert_fails(gpt_llmc_import(path, 0, new_save(), &out), E_FORMAT, "1023 bytes", "1024");
    assert_fails(gpt_llmc_import("/nowhere/model.bin", 0, new_save(), &out), E_DATA, "/nowhere/model.bin");
    assert_fails(gpt_llmc_import("/tmp", 0, new_save(), &out), E_DATA, "not a regular file");
}

TESTS(unit_test(test_weights_are_found_in_their_order), unit_test(test_an_exported_file_is_padded_with_zeros),
      unit_test(test_headers_that_lie_are_refused), unit_test(test_what_is_no_file_of_llmc_is_refused))
