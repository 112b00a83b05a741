/* ranks: 1  device: cpu */
/* Hugging Face's files: every element is stored at its index, from any dtype; any other model is refused by name. */
#include "lib/checkpoint/safetensors.h"
#include "models/gpt/gpt_hf.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { L = 2, C = 8, H = 2, T = 4, V = 5, MAX_TENSORS = 64 };

/* ---- a small model with Hugging Face's names and shapes ---- */

struct file_tensor { char name[64]; int64_t rows, columns; double scale; };   /* columns 0: a vector */
struct small_model { struct file_tensor tensor[MAX_TENSORS]; int n; enum dtype dtype; };

static void add(struct small_model *m, const char *prefix, int layer, const char *name, int64_t rows, int64_t columns) {
    struct file_tensor *t = &m->tensor[m->n++];
    *t = (struct file_tensor){.rows = rows, .columns = columns, .scale = 1};
    if (layer >= 0) snprintf(t->name, sizeof t->name, "%sh.%d.%s", prefix, layer, name);
    else snprintf(t->name, sizeof t->name, "%s%s", prefix, name);
}

static struct small_model model_of(const char *prefix, enum dtype dtype) {
    struct small_model m = {.dtype = dtype};
    add(&m, prefix, -1, "ln_f.weight", C, 0), add(&m, prefix, -1, "ln_f.bias", C, 0);
    for (int l = L - 1; l >= 0; l--) {
        add(&m, prefix, l, "attn.c_attn.weight", C, 3 * C), add(&m, prefix, l, "attn.c_attn.bias", 3 * C, 0);
        add(&m, prefix, l, "attn.c_proj.weight", C, C), add(&m, prefix, l, "attn.c_proj.bias", C, 0);
        add(&m, prefix, l, "mlp.c_fc.weight", C, 4 * C), add(&m, prefix, l, "mlp.c_fc.bias", 4 * C, 0);
        add(&m, prefix, l, "mlp.c_proj.weight", 4 * C, C), add(&m, prefix, l, "mlp.c_proj.bias", C, 0);
        add(&m, prefix, l, "ln_1.weight", C, 0), add(&m, prefix, l, "ln_1.bias", C, 0);
        add(&m, prefix, l, "ln_2.weight", C, 0), add(&m, prefix, l, "ln_2.bias", C, 0);
    }
    add(&m, prefix, -1, "wpe.weight", T, C), add(&m, prefix, -1, "wte.weight", V, C);
    return m;
}

static struct file_tensor *tensor_of(struct small_model *m, const char *name) {
    for (int i = 0; i < m->n; i++)
        if (!strcmp(m->tensor[i].name, name)) return &m->tensor[i];
    fail_msg("no tensor %s", name);
    return NULL;
}

/* Values differ between tensors and elements, as far as 8 bits of precision (bf16) allow. */
static double value(const char *name, int64_t i) {
    unsigned seed = 0;
    for (; *name; name++) seed = seed * 31 + (unsigned char)*name;
    return (double)((seed + (unsigned)i * 37) % 251);
}

static const char *bare(const char *name) { return strncmp(name, "transformer.", 12) ? name : name + 12; }

/* ---- files ---- */

static const char *folder_of(const char *name) {
    static char folder[512];
    snprintf(folder, sizeof folder, "%s", test_path(name));
    mkdir(folder, 0777);
    return folder;
}
static const char *path_in(const char *folder, const char *name) {
    static char paths[4][640];
    static int turn;
    char *path = paths[turn++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static void append_tensor(struct safetensors_writer *w, const struct file_tensor *t, enum dtype dtype) {
    int64_t n = t->columns ? t->rows * t->columns : t->rows;
    char *x = malloc((size_t)n * 8);
    for (int64_t i = 0; i < n; i++) dtype_set(x, dtype, i, t->scale * value(bare(t->name), i));
    assert_ok(safetensors_append(w, x, n * (int64_t)dtype_size(dtype)));
    free(x);
}

static void write_model(const struct small_model *m, const char *path) {
    struct safetensors_entry entries[MAX_TENSORS] = {{0}};
    struct safetensors_writer *w;
    int64_t bytes;
    uint64_t hash;
    for (int i = 0; i < m->n; i++) {
        const struct file_tensor *t = &m->tensor[i];
        entries[i] = (struct safetensors_entry){.name = (char *)t->name, .dtype = m->dtype,
                                                .n_axes = t->columns ? 2 : 1, .shape = {t->rows, t->columns}};
    }
    unlink(path);
    assert_ok(safetensors_create(path, entries, m->n, NULL, 0, &w));
    for (int i = 0; i < m->n; i++) append_tensor(w, &m->tensor[i], m->dtype);
    assert_ok(safetensors_finish(&w, &bytes, &hash));
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* A new path for each checkpoint, because checkpoints refuse an existing folder. */
static const char *new_save(void) {
    static int n;
    char name[32];
    snprintf(name, sizeof name, "save-%d", n++);
    return test_path(name);
}

static enum status import_model(const struct small_model *m, int64_t heads) {
    struct checkpoint_model out;
    const char *path = path_in(folder_of("hf"), "model.safetensors");
    write_model(m, path);
    return gpt_hf_import(path, heads, new_save(), &out);
}

/* ---- every element ---- */

/* Element (o, i) of Trivium's weight is element (i, o) of the Conv1D's. */
static void check_weight(const struct checkpoint_reader *r, const char *ours, const char *theirs, int64_t outputs,
                         int64_t inputs, bool transposed) {
    struct shape shape = {2, {axis_whole('C', outputs), axis_whole('C', inputs)}};
    double x[4 * C * C];
    if (!strcmp(ours + 3, "qkv.w")) shape = (struct shape){4,
                                                           {axis_whole('3', 3), axis_whole('H', H),
                                                            axis_whole('D', C / H), axis_whole('C', C)}};
    else if (!strcmp(ours + 3, "proj.w")) shape = (struct shape){3,
                                                                 {axis_whole('C', C), axis_whole('H', H),
                                                                  axis_whole('D', C / H)}};
    else if (!strcmp(ours + 3, "qkv.b")) shape = (struct shape){3,
                                                                {axis_whole('3', 3), axis_whole('H', H),
                                                                 axis_whole('D', C / H)}};
    else if (outputs == 1) shape = (struct shape){1, {axis_whole('C', inputs)}};
    assert_ok(checkpoint_read_weight(r, ours, &shape, FP64, x));
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < inputs; i++)
            assert_close(x[o * inputs + i], value(theirs, transposed ? i * outputs + o : o * inputs + i), 0);
}

static void check_layer(const struct checkpoint_reader *r, int l) {
    static const struct { const char *ours, *theirs; int64_t outputs, inputs; } rows[] = {
        {"ln1.g", "ln_1.weight", 1, C}, {"ln1.b", "ln_1.bias", 1, C}, {"qkv.w", "attn.c_attn.weight", 3 * C, C},
        {"qkv.b", "attn.c_attn.bias", 1, 3 * C},
        {"proj.w", "attn.c_proj.weight", C, C}, {"proj.b", "attn.c_proj.bias", 1, C}, {"ln2.g", "ln_2.weight", 1, C},
        {"ln2.b", "ln_2.bias", 1, C},
        {"fc.w", "mlp.c_fc.weight", 4 * C, C}, {"fc.b", "mlp.c_fc.bias", 1, 4 * C},
        {"fc2.w", "mlp.c_proj.weight", C, 4 * C}, {"fc2.b", "mlp.c_proj.bias", 1, C}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char ours[32], theirs[64];
        snprintf(ours, sizeof ours, "h%d.%s", l, rows[i].ours);
        snprintf(theirs, sizeof theirs, "h.%d.%s", l, rows[i].theirs);
        check_weight(r, ours, theirs, rows[i].outputs, rows[i].inputs, rows[i].outputs > 1);
    }
}

static void check_import(const char *prefix, enum dtype dtype) {
    struct small_model m = model_of(prefix, dtype);
    struct checkpoint_model out;
    struct checkpoint_reader *r;
    enum dtype stored;
    const char *path = path_in(folder_of("places"), "model.safetensors"), *save = new_save();
    write_model(&m, path);
    assert_ok(gpt_hf_import(path, H, save, &out));
    assert_true(out.layers == L && out.hidden == C && out.heads == H && out.seq == T && out.vocab == V);
    assert_ok(checkpoint_open(save, &r));
    assert_ok(checkpoint_weight_dtype(r, "h1.fc.w", &stored));
    assert_int_equal(stored, dtype);                                 /* import rounds nothing */
    check_weight(r, "embed.wte", "wte.weight", V, C, false);
    check_weight(r, "embed.wpe", "wpe.weight", T, C, false);
    for (int l = 0; l < L; l++) check_layer(r, l);
    check_weight(r, "head.lnf.g", "ln_f.weight", 1, C, false);
    check_weight(r, "head.lnf.b", "ln_f.bias", 1, C, false);
    checkpoint_close(&r);
}

TEST(test_every_element_comes_to_its_place) {
    check_import("transformer.", FP32);
    check_import("", FP64);
    check_import("", BF16);
    check_import("transformer.", FP16);
}

TEST(test_masks_and_a_tied_head_are_left_out) {
    struct small_model m = model_of("", FP32);
    add(&m, "", 0, "attn.bias", T, T), add(&m, "", 1, "attn.masked_bias", 1, 0);
    assert_ok(import_model(&m, H));
    add(&m, "", -1, "lm_head.weight", V, C);
    m.tensor[m.n - 1].scale = 2;
    assert_fails(import_model(&m, H), E_FORMAT, "model.safetensors", "lm_head.weight", "GPT-2 that has one for both");
    m = model_of("transformer.", FP32);
    for (int i = 0; i < m.n; i++) m.tensor[i].scale = 0;             /* wte and the head: zeros, and equal */
    add(&m, "", -1, "lm_head.weight", V, C);
    m.tensor[m.n - 1].scale = 0;
    assert_ok(import_model(&m, H));
    m.tensor[m.n - 1].rows = V - 1;
    assert_fails(import_model(&m, H), E_FORMAT, "lm_head.weight");
}

/* ---- refusals ---- */

TEST(test_tensors_that_are_not_as_they_should_be_are_named) {
    struct small_model m = model_of("transformer.", FP32);
    strcpy(tensor_of(&m, "transformer.h.0.ln_2.bias")->name, "transformer.h.0.ln_3.bias");
    assert_fails(import_model(&m, H), E_FORMAT, "transformer.h.0.ln_2.bias is missing");
    m = model_of("", FP32);
    add(&m, "", 1, "attn.rotary", C, 0);
    assert_fails(import_model(&m, H), E_FORMAT, "h.1.attn.rotary is none of a GPT-2's");
    m = model_of("", FP32);
    add(&m, "transformer.", 0, "ln_1.bias", C, 0);                   /* with the prefix, and also without it */
    assert_fails(import_model(&m, H), E_FORMAT, "h.0.ln_1.bias is none", "or there twice");
    m = model_of("", FP32);
    add(&m, "", 2, "ln_1.bias", C, 0);
    assert_fails(import_model(&m, H), E_FORMAT, "h.2.ln_1.weight is missing");
    m = model_of("", FP32);
    struct file_tensor *t = tensor_of(&m, "h.1.attn.c_attn.weight");
    t->rows = 3 * C, t->columns = C;                                 /* the shape of a Linear, not of a Conv1D */
    assert_fails(import_model(&m, H), E_FORMAT, "axis 0 of tensor h.1.attn.c_attn.weight is 24, not 8");
    m = model_of("", FP32);
    t = tensor_of(&m, "h.1.mlp.c_fc.bias");
    t->columns = 1;
    assert_fails(import_model(&m, H), E_FORMAT, "h.1.mlp.c_fc.bias has 2 axes, not 1");
    m = model_of("", INT32);
    assert_fails(import_model(&m, H), E_FORMAT, "wte.weight is I32");
    m = model_of("gpt.", FP32);
    assert_fails(import_model(&m, H), E_FORMAT, "wte.weight is missing", "another model_type in config.json");
    m = model_of("", FP32);
    tensor_of(&m, "h.0.mlp.c_proj.bias")->scale = INFINITY;
    assert_fails(import_model(&m, H), E_FORMAT, "h.0.mlp.c_proj.bias", "not finite");
}

TEST(test_heads_are_asked_for_where_nobody_says_them) {
    struct small_model m = model_of("", FP32);
    assert_fails(import_model(&m, 0), E_CONFIG, "hidden=8", "--heads");
    assert_fails(import_model(&m, 3), E_CONFIG, "heads=3", "hidden=8");
}

#define SIZES "\"n_layer\": 2, \"n_embd\": 8, \"n_positions\": 4, \"vocab_size\": 5"

static enum status import_with(const char *config, int64_t heads, struct checkpoint_model *out) {
    struct small_model m = model_of("", FP32);
    const char *folder = folder_of("configured"), *path = path_in(folder, "model.safetensors");
    write_model(&m, path);
    write_text(path_in(folder, "config.json"), config);
    return gpt_hf_import(folder, heads, new_save(), out);
}

TEST(test_config_says_the_heads_and_may_not_ask_for_another_function) {
    struct checkpoint_model out;
    assert_ok(import_with("{" SIZES ", \"n_head\": 4, \"n_inner\": null, \"activation_function\": \"gelu_new\", "
                          "\"layer_norm_epsilon\": 1e-05}", 0, &out));
    assert_int_equal(out.heads, 4);
    assert_ok(import_with("{" SIZES ", \"n_head\": 4}", 4, &out));
    assert_fails(import_with("{" SIZES ", \"n_head\": 4}", 2, &out), E_CONFIG, "heads=2", "n_head=4", "leave");
    static const struct { const char *config, *words; } cases[] = {
        {"{", "config.json is not JSON: string or"}, {"[]", "is no JSON object"},
        {"{" SIZES ", \"n_head\": 3}", "heads=3"},
        {"{" SIZES "}", "heads=12 does not divide"}, {"{\"n_head\": 4}", "does not say n_layer"},
        {"{" SIZES ", \"n_head\": \"4\"}", "n_head is \"4\""}, {"{\"model_type\": \"gpt_neo\"}", "gpt_neo"},
        {"{" SIZES ", \"n_head\": 4, \"activation_function\": \"silu\"}", "activation_function is \"silu\";"},
        {"{" SIZES ", \"n_head\": 4, \"layer_norm_epsilon\": \"1e-6\"}", "layer_norm_epsilon is \"1e-6\""},
        {"{\"n_layer\": 12, \"n_embd\": 8, \"n_positions\": 4, \"vocab_size\": 5, \"n_head\": 4}", "n_layer=12"},
        {"{\"n_layer\": 2, \"n_embd\": 12, \"n_positions\": 4, \"vocab_size\": 5, \"n_head\": 4}", "n_embd=12"},
        {"{\"n_layer\": 2, \"n_embd\": 8, \"n_positions\": 5, \"vocab_size\": 5, \"n_head\": 4}", "n_positions=5"},
        {"{\"n_layer\": 2, \"n_embd\": 8, \"n_positions\": 4, \"vocab_size\": 6, \"n_head\": 4}", "vocab_size=6"},
        {"{" SIZES ", \"n_head\": 4, \"n_inner\": 31}", "h.0.mlp.c_fc.weight"},
        {"{" SIZES ", \"n_head\": 4, \"scale_attn_weights\": false}", "scale_attn_weights is false"},
        {"{" SIZES ", \"n_head\": 4, \"tie_word_embeddings\": false}", "lm_head.weight"},
        {"{" SIZES ", \"n_head\": 4, \"scale_attn_by_inverse_layer_idx\": true}",
         "scale_attn_by_inverse_layer_idx is true"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(import_with(cases[i].config, 0, &out), E_FORMAT, cases[i].words);
}

/* n_inner is 3 n_embd, and the head is no embedding. */
TEST(test_a_head_of_its_own_and_another_inner_size_are_read) {
    struct small_model m = model_of("transformer.", FP64);
    struct checkpoint_model out;
    struct checkpoint_reader *r;
    const char *folder = folder_of("untied"), *save = new_save();
    for (int i = 0; i < m.n; i++) {
        struct file_tensor *t = &m.tensor[i];
        if (strstr(t->name, "mlp.c_fc.weight")) t->columns = 3 * C;
        if (strstr(t->name, "mlp.c_fc.bias") || strstr(t->name, "mlp.c_proj.weight")) t->rows = 3 * C;
    }
    add(&m, "", -1, "lm_head.weight", V, C);
    write_model(&m, path_in(folder, "model.safetensors"));
    write_text(path_in(folder, "config.json"),
               "{" SIZES ", \"n_head\": 4, \"n_inner\": 24, \"tie_word_embeddings\": false}");
    assert_ok(gpt_hf_import(folder, 0, save, &out));
    assert_true(out.untied == 1 && out.ffn == 3 * C);
    assert_ok(checkpoint_open(save, &r));
    check_weight(r, "head.w", "lm_head.weight", V, C, false);
    checkpoint_close(&r);
}

/* The layers are in a file of their own: save_pretrained splits models like this. */
TEST(test_a_gpt2_in_several_files_is_read) {
    struct small_model m = model_of("transformer.", FP32), layers = {.dtype = FP32}, rest = {.dtype = FP32};
    struct checkpoint_model out;
    struct checkpoint_reader *r;
    char index[8192] = "{\"weight_map\": {";
    const char *folder = folder_of("several"), *save = new_save();
    for (int i = 0; i < m.n; i++) {
        bool of_layer = strstr(m.tensor[i].name, ".h.") != NULL;
        struct small_model *to = of_layer ? &layers : &rest;
        to->tensor[to->n++] = m.tensor[i];
        snprintf(strchr(index, 0), 200, "%s\"%s\": \"%s.safetensors\"", i ? ", " : "", m.tensor[i].name,
                 of_layer ? "layers" : "rest");
    }
    strcat(index, "}}");
    write_model(&layers, path_in(folder, "layers.safetensors"));
    write_model(&rest, path_in(folder, "rest.safetensors"));
    write_text(path_in(folder, "model.safetensors.index.json"), index);
    assert_ok(gpt_hf_import(folder, H, save, &out));
    assert_ok(checkpoint_open(save, &r));
    check_weight(r, "embed.wte", "wte.weight", V, C, false);
    for (int l = 0; l < L; l++) check_layer(r, l);
    checkpoint_close(&r);
}

TEST(test_what_is_there_is_not_written_over) {
    struct small_model m = model_of("", FP32);
    struct checkpoint_model out;
    struct checkpoint_reader *r;
    const char *folder = folder_of("there"), *path = path_in(folder, "model.safetensors"), *save = new_save();
    write_model(&m, path);
    assert_ok(gpt_hf_import(path, H, save, &out));
    assert_fails(gpt_hf_import(path, H, save, &out), E_CONFIG, "has checkpoints already");
    assert_ok(checkpoint_open(save, &r));
    assert_fails(gpt_hf_export(r, N_DTYPES, path), E_IO, "model.safetensors", "exists");
    assert_true(access(path, F_OK) == 0 && access(path_in(folder, "config.json"), F_OK) != 0);
    write_text(path_in(folder, "config.json"), "{}");
    const char *other = path_in(folder, "other.safetensors");
    assert_fails(gpt_hf_export(r, N_DTYPES, other), E_IO, "config.json is there already");
    assert_true(access(other, F_OK) != 0);
    checkpoint_close(&r);
    assert_fails(gpt_hf_import("/nowhere/model.safetensors", 0, save, &out), E_DATA, "/nowhere");
}

TESTS(unit_test(test_every_element_comes_to_its_place), unit_test(test_masks_and_a_tied_head_are_left_out),
      unit_test(test_tensors_that_are_not_as_they_should_be_are_named),
      unit_test(test_heads_are_asked_for_where_nobody_says_them),
      unit_test(test_config_says_the_heads_and_may_not_ask_for_another_function),
      unit_test(test_a_head_of_its_own_and_another_inner_size_are_read),
      unit_test(test_a_gpt2_in_several_files_is_read), unit_test(test_what_is_there_is_not_written_over))
