/* ranks: 1  device: cpu
 *
 * Export, import and export again a BERT; old names; and what is refused. Against PyTorch: tests/hf.sh. */
#include "driver/recipe.h"
#include "lib/checkpoint/hf_files.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/run/published.h"
#include "models/bert/bert_hf.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *checkpoint(void) {
    static char save[CHECKPOINT_PATH_MAX];
    struct run r;
    struct plan p = parity_plan();
    if (save[0]) return save;
    snprintf(save, sizeof save, "%s", test_path("trained"));
    assert_ok(recipe_arch(&p, "bert"));
    p.layers = 2, p.hidden = 16, p.heads = 4, model_options(&p)->ffn = 24;
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
    assert_ok(bert_hf_export(r, N_DTYPES, path));
    checkpoint_close(&r);
}

/* The second third of qkv equals the keys' tensor. A round trip would hide exchanged thirds. */
static void check_keys(const char *path) {
    struct hf_files *f;
    struct checkpoint_reader *r;
    static double qkv[3 * 16 * 16], key[16 * 16];
    struct shape shape = {4, {axis_whole('3', 3), axis_whole('H', 4), axis_whole('D', 4), axis_whole('C', 16)}};
    assert_ok(hf_files_open(path, &f));
    struct hf_tensor t = hf_files_find(f, "bert.encoder.layer.1.attention.self.key.weight");
    assert_non_null(t.entry);
    assert_ok(checkpoint_open(checkpoint(), &r));
    assert_ok(checkpoint_read_weight(r, "h1.qkv.w", &shape, FP64, qkv));
    assert_ok(safetensors_read(t.file, t.entry, 0, sizeof key, key));
    assert_memory_equal(key, qkv + 16 * 16, sizeof key);
    assert_int_equal(hf_files_n(f), 5 + 2 * 16 + 5);
    checkpoint_close(&r);
    hf_files_close(&f);
}

TEST(test_bert_out_in_and_out_again_is_the_same_to_the_byte) {
    char first[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    path_in(first, "one", "model.safetensors");
    path_in(again, "again", "model.safetensors");
    snprintf(imported, sizeof imported, "%s", test_path("imported"));
    export_to(checkpoint(), first);
    check_keys(first);
    assert_ok(bert_hf_import(test_path("one"), 0, imported, &m));
    export_to(imported, again);
    assert_true(test_same_files(first, again));
    const struct checkpoint_model wanted = {
        .arch = "bert", .layers = 2, .hidden = 16, .heads = 4, .seq = 8, .vocab = 131, .ffn = 24};
    assert_string_equal(m.arch, "bert");
    assert_memory_equal(&m.layers, &wanted.layers, sizeof m - offsetof(struct checkpoint_model, layers));
}

/* Replace each `from` in a safetensors header by `to`, which must not be longer (blanks fill the rest). */
static void rename_in(const char *path, const char *from, const char *to) {
    static char text[1 << 20];
    FILE *f = fopen(path, "r+b");
    size_t n = fread(text, 1, sizeof text, f);
    for (size_t i = 8; i + strlen(from) < n && i < 16384; i++)
        if (!memcmp(text + i, from, strlen(from))) {
            memset(text + i, ' ', strlen(from));
            memcpy(text + i, to, strlen(to));
        }
    rewind(f);
    fwrite(text, 1, n, f);
    fclose(f);
}

/* bert-base-uncased on the hub has these names. */
TEST(test_old_names_of_norms_are_read) {
    char old[CHECKPOINT_PATH_MAX], again[CHECKPOINT_PATH_MAX], first[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    path_in(first, "one", "model.safetensors");
    if (access(first, F_OK) != 0) export_to(checkpoint(), first);
    path_in(old, "old", "model.safetensors");
    path_in(again, "from-old", "model.safetensors");
    export_to(checkpoint(), old);
    rename_in(old, "LayerNorm.weight\"", "LayerNorm.gamma\"");
    rename_in(old, "LayerNorm.bias\"", "LayerNorm.beta\"");
    assert_ok(bert_hf_import(old, 0, test_path("imported-old"), &m));
    export_to(test_path("imported-old"), again);
    assert_true(test_same_files(first, again));
}

static enum status import_with(const char *more) {
    char path[CHECKPOINT_PATH_MAX], config[CHECKPOINT_PATH_MAX], folder[32];
    static int n;
    struct checkpoint_model m;
    path_in(path, "refused", "model.safetensors");
    if (access(path, F_OK) != 0) export_to(checkpoint(), path);
    path_in(config, "refused", "config.json");
    FILE *f = fopen(config, "w");
    fprintf(f, "{\"model_type\": \"bert\", \"num_hidden_layers\": 2, \"hidden_size\": 16, \"num_attention_heads\": 4, "
               "\"max_position_embeddings\": 8, \"vocab_size\": 131, \"intermediate_size\": 24%s}", more);
    fclose(f);
    snprintf(folder, sizeof folder, "refused-%d", n++);
    return bert_hf_import(path, 0, test_path(folder), &m);
}

TEST(test_other_functions_than_bert_are_refused) {
    assert_ok(import_with(""));
    assert_ok(import_with(", \"hidden_act\": \"gelu\", \"layer_norm_eps\": 1e-12, \"type_vocab_size\": 2"));
    assert_fails(import_with(", \"hidden_act\": \"silu\""), E_FORMAT, "hidden_act is \"silu\"", "gelu");
    assert_fails(import_with(", \"layer_norm_eps\": 0"), E_FORMAT, "layer_norm_eps is 0", "above 0");
    assert_fails(import_with(", \"type_vocab_size\": 1"), E_FORMAT, "type_vocab_size is 1", "has 2");
    assert_fails(import_with(", \"is_decoder\": true"), E_FORMAT, "is_decoder");
    assert_fails(import_with(", \"position_embedding_type\": \"relative_key\""), E_FORMAT, "relative_key", "absolute");
    assert_fails(import_with(", \"tie_word_embeddings\": false"), E_FORMAT, "cls.predictions.decoder.weight");
}

TEST(test_a_checkpoint_of_gpt_is_no_bert) {
    const struct checkpoint_model m = {.arch = ""};
    assert_fails(bert_hf_check(&m), E_CONFIG, "is of gpt");
}

/* Two axes of one tag are in order; of experts' three, two change places. */
TEST(test_a_square_matrix_is_not_permuted) {
    const struct published square = {"w", {"w"}, "C C"}, experts = {"w", {"w"}, "E C F"};
    struct type ours = {.shape = {2, {axis_whole('C', 2), axis_whole('C', 2)}}};
    int axis[MAX_AXES];
    assert_int_equal(published_order(&square, &ours.shape, axis), 0);
    ours.shape = (struct shape){3, {axis_whole('E', 2), axis_whole('F', 3), axis_whole('C', 2)}};
    assert_int_equal(published_order(&experts, &ours.shape, axis), 3);
    assert_true(axis[0] == 0 && axis[1] == 2 && axis[2] == 1);
}

TESTS(unit_test(test_bert_out_in_and_out_again_is_the_same_to_the_byte), unit_test(test_old_names_of_norms_are_read),
      unit_test(test_other_functions_than_bert_are_refused), unit_test(test_a_checkpoint_of_gpt_is_no_bert),
      unit_test(test_a_square_matrix_is_not_permuted))
