/* ranks: 1  device: cpu
 *
 * Export, import and export again a T5; and what is refused. Against PyTorch: tests/hf.sh. */
#include "driver/recipe.h"
#include "lib/checkpoint/hf_files.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/ops/activation.h"
#include "models/t5/t5.h"
#include "models/t5/t5_hf.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* gated: as T5 1.1, with heads of 6 channels. */
static const char *checkpoint(bool gated) {
    static char saves[2][CHECKPOINT_PATH_MAX], *save;
    struct run r;
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    save = saves[gated];
    if (save[0]) return save;
    snprintf(save, sizeof *saves, "%s", test_path(gated ? "gated" : "trained"));
    assert_ok(recipe_arch(&p, "t5"));
    p.layers = 4, p.hidden = 16, p.heads = 4, m->ffn = 24;
    if (gated) m->activation = ACTIVATION_GEGLU, m->head_dim = 6, m->tie = 0, m->norm_eps = 0.003;
    memset(&r, 0, sizeof r);
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    assert_ok(layout_use_demo(&r));
    assert_ok(run_step(&r));
    assert_ok(checkpoint_save(&r, save, 1));
    run_destroy(&r);
    return save;
}

static void path_in(char out[CHECKPOINT_PATH_MAX], const char *folder, const char *name) {
    mkdir(test_path(folder), 0777);
    snprintf(out, CHECKPOINT_PATH_MAX, "%s/%s", test_path(folder), name);
}

static void export_to(const char *save, const char *path) {
    struct checkpoint_reader *r;
    assert_ok(checkpoint_open(save, &r));
    assert_ok(t5_hf_export(r, N_DTYPES, path));
    checkpoint_close(&r);
}

/* The second half of cross-attention's kv equals the values' tensor. A round trip would hide exchanged halves. */
static void check_values(const char *path) {
    struct hf_files *f;
    struct checkpoint_reader *r;
    static double kv[2 * 16 * 16], values[16 * 16];
    struct shape shape = {4, {axis_whole('2', 2), axis_whole('J', 4), axis_whole('D', 4), axis_whole('C', 16)}};
    assert_ok(hf_files_open(path, &f));
    struct hf_tensor t = hf_files_find(f, "decoder.block.1.layer.1.EncDecAttention.v.weight");
    assert_non_null(t.entry);
    assert_ok(checkpoint_open(checkpoint(false), &r));
    assert_ok(checkpoint_read_weight(r, "d1.xkv.w", &shape, FP64, kv));
    assert_ok(safetensors_read(t.file, t.entry, 0, sizeof values, values));
    assert_memory_equal(values, kv + 16 * 16, sizeof values);
    assert_int_equal(hf_files_n(f), 1 + 2 + 2 * 8 + 2 * 13 + 2);     /* table, biases, layers, last norms */
    checkpoint_close(&r);
    hf_files_close(&f);
}

TEST(test_t5_out_in_and_out_again_is_the_same_to_the_byte) {
    char first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    path_in(first, "one", "model.safetensors");
    path_in(again, "again", "model.safetensors");
    snprintf(imported, sizeof imported, "%s", test_path("imported"));
    export_to(checkpoint(false), first);
    check_values(first);
    assert_ok(t5_hf_import(test_path("one"), 0, imported, &m));
    export_to(imported, again);
    assert_true(test_same_files(first, again));
    const struct checkpoint_model wanted = {
        .arch = "t5", .layers = 4, .hidden = 16, .heads = 4, .seq = 8, .vocab = 131, .ffn = 24};
    assert_string_equal(m.arch, "t5");
    assert_memory_equal(&m.layers, &wanted.layers, sizeof m - offsetof(struct checkpoint_model, layers));
}

/* The first half of up is wi_0, which is the gate. */
static void check_gate(const char *path) {
    struct hf_files *f;
    struct checkpoint_reader *r;
    static double up[2 * 24 * 16], gate[24 * 16];
    struct shape shape = {3, {axis_whole('2', 2), axis_whole('K', 24), axis_whole('C', 16)}};
    assert_ok(hf_files_open(path, &f));
    struct hf_tensor t = hf_files_find(f, "encoder.block.1.layer.1.DenseReluDense.wi_0.weight");
    assert_non_null(t.entry);
    assert_ok(checkpoint_open(checkpoint(true), &r));
    assert_ok(checkpoint_read_weight(r, "e1.up.w", &shape, FP64, up));
    assert_ok(safetensors_read(t.file, t.entry, 0, sizeof gate, gate));
    assert_memory_equal(gate, up, sizeof gate);
    assert_int_equal(hf_files_n(f), 2 + 2 + 2 * 9 + 2 * 14 + 2);     /* tables, biases, layers, last norms */
    checkpoint_close(&r);
    hf_files_close(&f);
}

TEST(test_a_gated_t5_out_in_and_out_again_is_the_same_to_the_byte) {
    char first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX], text[2048];
    struct checkpoint_model m;
    path_in(first, "gated-one", "model.safetensors");
    path_in(again, "gated-again", "model.safetensors");
    snprintf(imported, sizeof imported, "%s", test_path("gated-imported"));
    export_to(checkpoint(true), first);
    check_gate(first);
    assert_ok(t5_hf_import(test_path("gated-one"), 0, imported, &m));
    export_to(imported, again);
    assert_true(test_same_files(first, again));
    const struct checkpoint_model wanted = {
        .arch = "t5", .layers = 4, .hidden = 16, .heads = 4, .seq = 8, .vocab = 131, .ffn = 24, .head_dim = 6,
        .untied = 1, .more = "norm-eps=0.003 activation=geglu"};
    assert_memory_equal(&m.layers, &wanted.layers, sizeof m - offsetof(struct checkpoint_model, layers));
    path_in(first, "gated-one", "config.json");
    FILE *f = fopen(first, "r");
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    assert_non_null(strstr(text, "\"d_kv\": 6,"));
    assert_non_null(strstr(text, "\"feed_forward_proj\": \"gated-gelu\""));
}

static enum status import_with(const char *sizes, const char *more) {
    char path[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX], folder[32];
    static int n;
    struct checkpoint_model m;
    path_in(path, "refused", "model.safetensors");
    if (access(path, F_OK) != 0) export_to(checkpoint(false), path);
    path_in(config, "refused", "config.json");
    FILE *f = fopen(config, "w");
    fprintf(f, "{\"model_type\": \"t5\", \"d_model\": 16, \"num_heads\": 4, \"n_positions\": 8, \"vocab_size\": 131, "
               "\"d_ff\": 24, %s%s}", sizes, more);
    fclose(f);
    snprintf(folder, sizeof folder, "refused-%d", n++);
    return t5_hf_import(path, 0, test_path(folder), &m);
}

TEST(test_other_functions_than_t5_are_refused) {
    const char *sizes = "\"num_layers\": 2, \"d_kv\": 4";
    assert_ok(import_with(sizes, ""));
    assert_ok(import_with(sizes, ", \"num_decoder_layers\": 2, \"feed_forward_proj\": \"relu\""));
    assert_fails(import_with(sizes, ", \"num_decoder_layers\": 3"), E_FORMAT, "num_decoder_layers=3");
    assert_fails(import_with("\"num_layers\": 2, \"d_kv\": 8", ""), E_FORMAT, "q.weight is 16, not 32");
    assert_fails(import_with(sizes, ", \"feed_forward_proj\": \"gated-gelu\""), E_FORMAT, "wi_0.weight is missing");
    assert_fails(import_with(sizes, ", \"feed_forward_proj\": \"silu\""), E_FORMAT, "\"silu\"", "gated-silu");
    assert_fails(import_with(sizes, ", \"layer_norm_epsilon\": -1"), E_FORMAT, "layer_norm_epsilon is -1");
    assert_fails(import_with(sizes, ", \"relative_attention_num_buckets\": 16"), E_FORMAT, "is 16", "32");
    assert_fails(import_with(sizes, ", \"relative_attention_max_distance\": 64"), E_FORMAT, "is 64", "128");
    assert_fails(import_with(sizes, ", \"decoder_start_token_id\": 2"), E_FORMAT, "decoder_start_token_id is 2");
    assert_fails(import_with(sizes, ", \"tie_word_embeddings\": false"), E_FORMAT, "lm_head.weight");
    assert_fails(import_with("\"num_layers\": 1, \"d_kv\": 4", ""), E_FORMAT, "block.1.", "none of a T5's");
}

TEST(test_a_checkpoint_of_gpt_is_no_t5) {
    const struct checkpoint_model m = {.arch = ""};
    assert_fails(t5_hf_check(&m), E_CONFIG, "is of gpt");
}

TESTS(unit_test(test_t5_out_in_and_out_again_is_the_same_to_the_byte),
      unit_test(test_a_gated_t5_out_in_and_out_again_is_the_same_to_the_byte),
      unit_test(test_other_functions_than_t5_are_refused), unit_test(test_a_checkpoint_of_gpt_is_no_t5))
