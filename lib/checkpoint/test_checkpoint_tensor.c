/* ranks: 1  device: cpu */
/* Reading whole weights from a checkpoint's files, weights-only checkpoints, files with gaps, and the files that a
 * failure leaves. */
#include "lib/checkpoint/checkpoint_save.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct checkpoint_model MODEL = {
    .layers = 1, .hidden = 4, .heads = 2, .seq = 3, .vocab = 5};

static struct shape shape_2d(int64_t rows, int64_t columns) {
    return (struct shape){2, {axis_whole('V', rows), axis_whole('C', columns)}};
}

static bool is_there(const char *folder, const char *name) {
    char path[CHECKPOINT_PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return access(path, F_OK) == 0;
}

/* ---- a checkpoint by hand: each file has some rows of "w" (4, 2), whose element i is i + 1 ---- */

struct rows { int64_t first, n; };

static json_t *write_rows(const char *folder, int rank, struct rows rows, struct shard *out) {
    char path[CHECKPOINT_PATH_MAX];
    double x[8];
    struct piece p = {{2, {{.tag = 'V', .n = rows.n, .first = rows.first, .global = 4}, axis_whole('C', 2)}}, 0,
                      2 * rows.n};
    struct safetensors_entry entry = {.name = "w", .dtype = FP64, .n_axes = 2, .shape = {rows.n, 2}};
    struct safetensors_writer *w;
    json_t *pieces = json_pack("{s:o}", "w", checkpoint_piece_json(&p));
    char *text = json_dumps(pieces, 0);
    struct safetensors_pair metadata = {"pieces", text};
    for (int64_t i = 0; i < 2 * rows.n; i++) x[i] = (double)(2 * rows.first + i + 1);
    assert_ok(checkpoint_shard_path(folder, rank, path));
    assert_ok(safetensors_create(path, &entry, 1, &metadata, 1, &w));
    assert_ok(safetensors_append(w, x, (int64_t)sizeof *x * 2 * rows.n));
    assert_ok(safetensors_finish(&w, &out->bytes, &out->hash));
    free(text);
    return pieces;
}

static const char *by_hand(const char *name, int n, const struct rows *rows) {
    static char save[CHECKPOINT_PATH_MAX];
    char unfinished[CHECKPOINT_PATH_MAX];
    struct shard shards[4];
    snprintf(save, sizeof save, "%s", test_path(name));
    assert_ok(checkpoint_step_path(save, 7, true, unfinished));
    assert_ok(checkpoint_begin(save, unfinished));
    for (int i = 0; i < n; i++) json_decref(write_rows(unfinished, i, rows[i], &shards[i]));
    json_t *model = json_pack("{s:i, s:i, s:i, s:i, s:i}", "layers", 1, "hidden", 4, "heads", 2, "seq", 3, "vocab", 5);
    json_t *manifest = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:o}", "format", "trivium checkpoint", "version",
                                 CHECKPOINT_VERSION, "step", "7", "update",
                                 "7", "samples", "7", "seed", "1", "model", model);
    assert_ok(checkpoint_publish(manifest, save, 7, shards, n, 0));
    json_decref(manifest);
    return save;
}

#define BY_HAND(name, ...) \
    by_hand(name, sizeof((struct rows[]){__VA_ARGS__}) / sizeof(struct rows), (struct rows[]){__VA_ARGS__})

TEST(test_a_weight_is_put_together_from_its_files) {
    struct checkpoint_reader *r;
    struct shape shape = shape_2d(4, 2);
    float x[8];
    enum dtype dtype;
    assert_ok(checkpoint_open(BY_HAND("rows", {3, 1}, {0, 2}, {2, 1}), &r));
    assert_ok(checkpoint_weight_dtype(r, "w", &dtype));
    assert_int_equal(dtype, FP64);
    assert_int_equal(checkpoint_model_of(r).vocab, 5);
    assert_ok(checkpoint_read_weight(r, "w", &shape, FP32, x));
    for (int i = 0; i < 8; i++) assert_close(x[i], i + 1, 0);
    /* the local part of the shape is ignored */
    shape.axis[0] = (struct axis){.tag = 'V', .n = 1, .first = 1, .global = 4};
    memset(x, 0, sizeof x);
    assert_ok(checkpoint_read_weight(r, "w", &shape, FP32, x));
    for (int i = 0; i < 8; i++) assert_close(x[i], i + 1, 0);
    checkpoint_close(&r);
}

static enum status read_of(const char *save, struct shape shape) {
    struct checkpoint_reader *r;
    double x[16];
    TRY(checkpoint_open(save, &r));
    enum status status = checkpoint_read_weight(r, "w", &shape, FP64, x);
    checkpoint_close(&r);
    return status;
}

TEST(test_gaps_are_refused) {
    assert_fails(read_of(BY_HAND("gap", {0, 2}, {3, 1}), shape_2d(4, 2)), E_FORMAT, "6 elements of w", "not whole");
    assert_fails(read_of(BY_HAND("twice", {0, 2}, {0, 2}), shape_2d(4, 2)), E_FORMAT,
                 "w has an element that is missing");
    assert_fails(read_of(BY_HAND("shape", {0, 4}), shape_2d(2, 4)), E_FORMAT, "another shape");
}

TEST(test_a_weight_that_no_file_has_is_refused) {
    struct checkpoint_reader *r;
    struct shape shape = shape_2d(4, 2);
    enum dtype dtype;
    double x[8];
    assert_ok(checkpoint_open(BY_HAND("other", {0, 4}), &r));
    assert_fails(checkpoint_weight_dtype(r, "v", &dtype), E_FORMAT, "no file has the weight v");
    assert_fails(checkpoint_read_weight(r, "v", &shape, FP64, x), E_FORMAT, "0 elements of v");
    checkpoint_close(&r);
}

TEST(test_a_damaged_file_is_not_opened) {
    struct checkpoint_reader *r;
    char path[CHECKPOINT_PATH_MAX];
    const char *save = BY_HAND("damaged", {0, 4});
    snprintf(path, sizeof path, "%.400s/step-00000007/rank-00000.safetensors", save);
    FILE *f = fopen(path, "r+");
    assert_non_null(f);
    fseek(f, -1, SEEK_END);
    fputc(1, f);
    fclose(f);
    assert_fails(checkpoint_open(save, &r), E_FORMAT, "is damaged");
    assert_null(r);
    assert_fails(checkpoint_open("/nowhere", &r), E_DATA, "/nowhere");
}

/* ---- weights-only checkpoints ---- */

static enum status begin(const char *save, struct checkpoint_writer **w) {
    const struct checkpoint_weight list[] = {{"a", shape_2d(2, 2), FP32}, {"b", {1, {axis_whole('C', 3)}}, FP64}};
    return checkpoint_weights_create(save, &MODEL, list, 2, w);
}

TEST(test_weights_alone_are_read_back) {
    struct checkpoint_writer *w;
    struct checkpoint_reader *r;
    struct shape shape = {1, {axis_whole('C', 3)}};
    const float a[4] = {1, 2, 3, 4};
    const double b[3] = {5, 6, 7};
    double found[3];
    const char *save = test_path("alone");
    assert_ok(begin(save, &w));
    assert_ok(checkpoint_weights_append(w, a, sizeof a));
    assert_ok(checkpoint_weights_append(w, b, sizeof b));
    assert_ok(checkpoint_weights_finish(&w));
    assert_null(w);
    assert_ok(checkpoint_open(save, &r));
    assert_ok(checkpoint_read_weight(r, "b", &shape, FP64, found));
    assert_memory_equal(found, b, sizeof b);
    struct checkpoint_model m = checkpoint_model_of(r);
    assert_memory_equal(&m, &MODEL, sizeof m);
    checkpoint_close(&r);
    assert_fails(begin(save, &w), E_CONFIG, "has checkpoints already");
    assert_null(w);
    assert_ok(checkpoint_open(save, &r));                            /* the old checkpoint is untouched */
    checkpoint_close(&r);
}

/* Each option with the longest value: a manifest keeps them all. */
TEST(test_all_options_of_a_model_are_kept) {
    struct checkpoint_model m = MODEL, none = MODEL, back;
    char value[MODEL_VALUE_MAX], found[MODEL_VALUE_MAX];
    const char *name;
    memset(value, '1', sizeof value - 1), value[sizeof value - 1] = 0;
    for (int i = N_MODEL_SIZES; i < N_MODEL_OPTIONS; i++) {
        assert_false(checkpoint_model_option(&none, i, NULL, &name, found));
        checkpoint_model_say(&m, name, value);
    }
    json_t *manifest = json_pack("{s:o}", "model", checkpoint_model_json(&m));
    assert_ok(checkpoint_model_read(manifest, "here", &back));
    json_decref(manifest);
    assert_memory_equal(&back, &m, sizeof m);
    for (int i = N_MODEL_SIZES; i < N_MODEL_OPTIONS; i++) {
        assert_true(checkpoint_model_option(&back, i, NULL, &name, found));
        assert_string_equal(found, value);
    }
}

TEST(test_nothing_is_left_of_what_was_not_finished) {
    struct checkpoint_writer *w;
    const float a[4] = {0};
    const char *save = test_path("unfinished");
    assert_ok(begin(save, &w));
    assert_ok(checkpoint_weights_append(w, a, sizeof a));
    assert_true(is_there(save, ".step-00000000"));
    assert_fails(checkpoint_weights_finish(&w), E_INTERNAL, "of its");
    assert_null(w);
    assert_false(is_there(save, ".step-00000000") || is_there(save, "step-00000000") || is_there(save, "latest"));
    assert_ok(begin(save, &w));
    checkpoint_weights_abandon(&w);
    assert_null(w);
    assert_false(is_there(save, ".step-00000000"));
}

TEST(test_sizes_of_no_model_are_refused) {
    struct checkpoint_model m = MODEL;
    assert_ok(checkpoint_model_check(&m, "here"));
    m.layers = 0;
    assert_fails(checkpoint_model_check(&m, "here"), E_FORMAT, "here", "layers=0");
    m = MODEL, m.vocab = 3000000000;
    assert_fails(checkpoint_model_check(&m, "here"), E_FORMAT, "vocab=3000000000", "2000000000");
    m = MODEL, m.heads = 3;
    assert_fails(checkpoint_model_check(&m, "here"), E_FORMAT, "heads=3", "hidden=4");
    m = MODEL, m.heads = 4, m.kv_heads = 3;
    assert_fails(checkpoint_model_check(&m, "here"), E_FORMAT, "kv-heads=3", "heads=4");
}

TESTS(unit_test(test_a_weight_is_put_together_from_its_files), unit_test(test_gaps_are_refused),
      unit_test(test_a_weight_that_no_file_has_is_refused), unit_test(test_a_damaged_file_is_not_opened),
      unit_test(test_weights_alone_are_read_back), unit_test(test_nothing_is_left_of_what_was_not_finished),
      unit_test(test_all_options_of_a_model_are_kept), unit_test(test_sizes_of_no_model_are_refused))
