/* ranks: 1  device: cpu
 *
 * Tensors that files have twice. A copy is compared before it is left out; import reads the right one of the two; and
 * export writes a tensor under both names if transformers 4 and 5 read different names.
 *
 * And tensors that files have in two: GPT-OSS's experts in MXFP4, which are codes and scales. Against transformers'
 * own: tests/hf.sh. */
#include "driver/recipe.h"
#include "lib/checkpoint/hf_files.h"
#include "models/bert/bert_hf.h"
#include "models/llama/llama.h"
#include "models/llama/llama_hf.h"
#include "models/t5/t5_hf.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MATRIX "bert.embeddings.word_embeddings.weight"
#define HEAD "cls.predictions."

typedef enum status importer(const char *, int64_t, const char *, struct checkpoint_model *);
typedef enum status exporter(const struct checkpoint_reader *, enum dtype, const char *);
static const struct kind { const char *arch; importer *in; exporter *out; void (*set)(struct plan *); } KINDS[] = {
    {"bert", bert_hf_import, bert_hf_export, NULL}, {"t5", t5_hf_import, t5_hf_export, NULL},
    {"llama", llama_hf_import, llama_hf_export, NULL}};
enum { BERT, T5, LLAMA };

static char folder[CHECKPOINT_PATH_MAX], imported[CHECKPOINT_PATH_MAX];

/* Export a model with its initial weights to `folder`. */
static void export_new(const struct kind *k, bool tied) {
    char save[CHECKPOINT_PATH_MAX], file[CHECKPOINT_PATH_MAX + 32];
    static int n;
    struct run r;
    struct checkpoint_reader *reader;
    struct plan p = parity_plan();
    assert_ok(recipe_arch(&p, k->arch));
    p.layers = 2, p.hidden = 16, p.heads = 4, model_options(&p)->tie = tied;
    if (k->set) k->set(&p);
    memset(&r, 0, sizeof r);
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_create(&r, &train_recipe, &p, WATCH_NOTHING));
    snprintf(file, sizeof file, "%s-%d", k->arch, n++);
    snprintf(save, sizeof save, "%s", test_path(file));
    assert_ok(checkpoint_save(&r, save, 1));
    run_destroy(&r);
    snprintf(folder, sizeof folder, "%.200s-out", save);
    snprintf(imported, sizeof imported, "%.200s-in", save);
    mkdir(folder, 0777);
    snprintf(file, sizeof file, "%s/model.safetensors", folder);
    assert_ok(checkpoint_open(save, &reader));
    assert_ok(k->out(reader, N_DTYPES, file));
    checkpoint_close(&reader);
}

/* Rewrite the folder's file with one more tensor: a copy of `as`, called `name`, with its last byte changed if
 * `changed`. The tensor `without` is removed. */
static void add_tensor(const char *name, const char *as, bool changed, const char *without) {
    char file[CHECKPOINT_PATH_MAX + 32];
    struct hf_files *f;
    struct safetensors_entry entries[128];
    struct hf_tensor from[128];
    struct safetensors_writer *w;
    int64_t bytes;
    uint64_t hash;
    int n = 0;
    assert_ok(hf_files_open(folder, &f));
    for (int i = 0; i <= hf_files_n(f); i++) {
        struct hf_tensor t = i < hf_files_n(f) ? hf_files_at(f, i) : hf_files_find(f, as);
        assert_non_null(t.entry);
        if (i < hf_files_n(f) && (!strcmp(t.entry->name, without) || !strcmp(t.entry->name, name))) continue;
        from[n] = t, entries[n] = *t.entry;
        if (i == hf_files_n(f)) entries[n].name = (char *)name;
        n++;
    }
    snprintf(file, sizeof file, "%s/new", folder);
    assert_ok(safetensors_create(file, entries, n, NULL, 0, &w));
    for (int i = 0; i < n; i++) {
        int64_t size = entries[i].end - entries[i].begin;
        char *room = malloc((size_t)size);
        assert_ok(safetensors_read(from[i].file, from[i].entry, 0, size, room));
        if (i == n - 1 && changed) room[size - 1] ^= 1;
        assert_ok(safetensors_append(w, room, size));
        free(room);
    }
    assert_ok(safetensors_finish(&w, &bytes, &hash));
    hf_files_close(&f);
    char whole[CHECKPOINT_PATH_MAX + 32];
    snprintf(whole, sizeof whole, "%s/model.safetensors", folder);
    assert_int_equal(rename(file, whole), 0);
}

static enum status import_again(const struct kind *k) {
    static int n;
    struct checkpoint_model m;
    snprintf(imported, sizeof imported, "%.200s-%d", folder, n++);
    return k->in(folder, 0, imported, &m);
}

TEST(test_what_is_there_twice_is_compared) {
    static const struct { int kind; const char *name, *as, *word; } rows[] = {
        {BERT, HEAD "decoder.weight", MATRIX, "tie_word_embeddings"},
        {BERT, HEAD "decoder.bias", HEAD "bias", "tie_word_embeddings"},
        {T5, "lm_head.weight", "shared.weight", "tie_word_embeddings"},
        {T5, "encoder.embed_tokens.weight", "shared.weight", "one for both"},
        {T5, "decoder.embed_tokens.weight", "shared.weight", "one for both"},
        {LLAMA, "lm_head.weight", "model.embed_tokens.weight", "tie_word_embeddings"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct kind *k = &KINDS[rows[i].kind];
        export_new(k, true);
        add_tensor(rows[i].name, rows[i].as, false, "");
        assert_ok(import_again(k));
        add_tensor(rows[i].name, rows[i].as, true, "");
        assert_fails(import_again(k), E_FORMAT, rows[i].name, rows[i].as, rows[i].word);
    }
}

/* Element `place` of the imported bias. */
static double bias_of_import(int64_t place) {
    struct checkpoint_reader *r;
    double b[131];
    const struct shape shape = {1, {axis_whole('V', 131)}};
    assert_ok(checkpoint_open(imported, &r));
    assert_ok(checkpoint_read_weight(r, "head.b", &shape, FP64, b));
    checkpoint_close(&r);
    return b[place];
}

/* The bias is 131 doubles, initially zero. Changing the last byte makes the last one 2^-1007. */
TEST(test_an_own_head_has_the_decoders_bias) {
    const struct kind *k = &KINDS[BERT];
    export_new(k, false);
    add_tensor("never", HEAD "bias", false, "never");
    assert_fails(import_again(k), E_FORMAT, "tensor never is none of a BERT's");
    export_new(k, false);
    assert_ok(import_again(k));
    assert_true(bias_of_import(130) == 0);
    add_tensor(HEAD "decoder.bias", HEAD "bias", true, "");
    test_stderr_keep();
    enum status status = import_again(k);
    assert_non_null(strstr(test_stderr_text(), "transformers 4 reads that one"));
    assert_ok(status);
    assert_true(bias_of_import(130) != 0);
}

TEST(test_one_of_two_names_is_enough) {
    export_new(&KINDS[BERT], true);
    add_tensor(HEAD "decoder.bias", HEAD "bias", false, HEAD "bias");
    assert_ok(import_again(&KINDS[BERT]));
    export_new(&KINDS[T5], true);
    add_tensor("lm_head.weight", "shared.weight", false, "shared.weight");
    assert_ok(import_again(&KINDS[T5]));
    for (int changed = 0; changed < 2; changed++) {              /* both embeddings, without `shared` */
        export_new(&KINDS[T5], true);
        add_tensor("encoder.embed_tokens.weight", "shared.weight", false, "");
        add_tensor("decoder.embed_tokens.weight", "shared.weight", changed, "shared.weight");
        if (changed) assert_fails(import_again(&KINDS[T5]), E_FORMAT, "coder.embed_tokens.weight", "one for both");
        else assert_ok(import_again(&KINDS[T5]));
    }
}

TEST(test_an_own_heads_bias_is_written_under_both_names) {
    struct hf_files *f;
    for (int tied = 0; tied < 2; tied++) {
        export_new(&KINDS[BERT], tied);
        assert_ok(hf_files_open(folder, &f));
        assert_non_null(hf_files_find(f, HEAD "bias").entry);
        assert_int_equal(hf_files_find(f, HEAD "decoder.bias").entry == NULL, tied);
        hf_files_close(&f);
    }
}

/* ---- experts in MXFP4 ---- */

enum { E = 3, C = 64, F = 96 };
enum fault {
    GOOD, NUMBERS, NO_SCALES, SCALES_OF_2_AXES, FEWER_SCALES, BLOCKS_OF_16, SIGNED, NOT_A_NUMBER, TOO_LARGE, TWICE
};
static int64_t width;                    /* channels of the model: C, or no multiple of 32 */
static enum fault fault;

static void set_gpt_oss(struct plan *p) {
    struct model_options *m = model_options(p);
    void *limit;
    p->hidden = width, m->ffn = F, m->experts = E, m->experts_per_token = 2, m->tie = 0;
    plan_set_word(p, "attention-bias", "all", 0), plan_set_word(p, "window-layers", "sf", 0);
    plan_set_number(p, "window", 3), plan_set_number(p, "attention-sinks", 1);
    plan_set_number(p, "expert-bias", 1), plan_set_number(p, "router-bias", 1);
    assert_non_null(plan_option(p, "swiglu-limit", &limit));
    *(double *)limit = 7;
}

/* Byte i of a tensor's codes, of its scales: 2^-12 to 2^4, and one at each end. */
static uint8_t code_at(int64_t i) { return (uint8_t)(i * 167 + i / 7); }
static uint8_t scale_at(int64_t i) {
    if (i == 1) return fault == NOT_A_NUMBER ? 255 : fault == TOO_LARGE ? 253 : 252;
    return (uint8_t)(i ? 115 + i * 5 % 17 : 0);
}

/* E2M1 by its bits: 1 sign, 2 exponent with bias 1, 1 mantissa. */
static double number_of(int code) {
    int exponent = code >> 1 & 3;
    double x = exponent ? ldexp(2 + code % 2, exponent - 2) : code % 2 / 2.0;
    return code & 8 ? -x : x;
}
/* Number i of a tensor, of the blocks' order. */
static double block_number(int64_t i) {
    int code = i % 2 ? code_at(i / 2) >> 4 : code_at(i / 2) & 15;
    return ldexp(number_of(code), scale_at(i / 32) - 127);
}

static bool ends(const char *text, const char *end) {
    return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

/* The tensors of one matrix of experts: rows of n numbers, as it lies in blocks. Its numbers lie with the other order:
 * (E, n, rows). */
struct matrix { char name[3][160]; int64_t rows, n; };
static void list_matrix(const struct matrix *x, struct safetensors_entry *e, int *count) {
    struct safetensors_entry codes = {.name = (char *)x->name[0], .dtype = fault == SIGNED ? INT32 : UINT8, .n_axes = 4,
                                      .shape = {E, x->rows, x->n / 32, fault == SIGNED ? 4 : 16}};
    struct safetensors_entry scales = {.name = (char *)x->name[1], .dtype = UINT8, .n_axes = 3,
                                       .shape = {E, x->rows, x->n / 32}};
    struct safetensors_entry numbers = {.name = (char *)x->name[2], .dtype = FP64, .n_axes = 3,
                                        .shape = {E, x->n, x->rows}};
    if (fault == BLOCKS_OF_16) codes.shape[2] *= 2, codes.shape[3] = 8, scales.shape[2] *= 2;
    if (fault == SCALES_OF_2_AXES) scales.n_axes = 2, scales.shape[1] *= scales.shape[2];
    if (fault == FEWER_SCALES) scales.shape[0]--;
    if (fault != NUMBERS) e[(*count)++] = codes;
    if (fault != NUMBERS && fault != NO_SCALES) e[(*count)++] = scales;
    if (fault == NUMBERS || fault == TWICE) e[(*count)++] = numbers;
}

static void write_entry(struct safetensors_writer *w, const struct safetensors_entry *e) {
    int64_t bytes = e->end - e->begin, n = e->shape[1], rows = e->shape[2];
    char *room = malloc((size_t)bytes);
    for (int64_t i = 0; i < bytes && e->dtype != FP64; i++)
        room[i] = (char)(ends(e->name, "_scales") ? scale_at(i) : code_at(i));
    for (int64_t i = 0; i < bytes / 8 && e->dtype == FP64; i++)
        ((double *)room)[i] = block_number((i / (n * rows) * rows + i % rows) * n + i / rows % n);
    assert_ok(safetensors_append(w, room, bytes));
    free(room);
}

/* Export a GPT-OSS, and put the fault's tensors in place of its experts' matrices. */
static void write_experts(enum fault f, int64_t C_of) {
    static const struct kind gpt_oss = {"gpt_oss", NULL, NULL, set_gpt_oss};
    struct kind k = gpt_oss;
    struct matrix matrix[4];
    struct safetensors_entry entries[128];
    struct hf_tensor from[128];
    struct hf_files *files;
    struct safetensors_writer *w;
    char file[CHECKPOINT_PATH_MAX + 32], whole[CHECKPOINT_PATH_MAX + 32];
    int n = 0, kept, found = 0;
    int64_t bytes;
    uint64_t hash;
    width = C_of, fault = f;
    k.in = gpt_oss_formats[0].import, k.out = gpt_oss_formats[0].export;
    export_new(&k, false);
    assert_ok(hf_files_open(folder, &files));
    for (int i = 0; i < hf_files_n(files); i++) {
        struct hf_tensor t = hf_files_at(files, i);
        bool up = ends(t.entry->name, "gate_up_proj");
        if (up || ends(t.entry->name, "down_proj")) {
            struct matrix *x = &matrix[found++];
            static const char *const end[] = {"_blocks", "_scales", ""};
            for (int j = 0; j < 3; j++) snprintf(x->name[j], sizeof x->name[j], "%s%s", t.entry->name, end[j]);
            x->rows = up ? 2 * F : width, x->n = up ? width : F;
        } else from[n] = t, entries[n++] = *t.entry;
    }
    assert_int_equal(found, 4);
    kept = n;
    for (int i = 0; i < found; i++) list_matrix(&matrix[i], entries, &n);
    snprintf(file, sizeof file, "%s/new", folder), snprintf(whole, sizeof whole, "%s/model.safetensors", folder);
    assert_ok(safetensors_create(file, entries, n, NULL, 0, &w));
    for (int i = 0; i < n; i++) {
        int64_t size = entries[i].end - entries[i].begin;
        char *room = malloc((size_t)size);
        if (i < kept) assert_ok(safetensors_read(from[i].file, from[i].entry, 0, size, room));
        if (i < kept) assert_ok(safetensors_append(w, room, size));
        else write_entry(w, &entries[i]);
        free(room);
    }
    assert_ok(safetensors_finish(&w, &bytes, &hash));
    hf_files_close(&files);
    assert_int_equal(rename(file, whole), 0);
}

static enum status import_experts(void) {
    const struct kind k = {"gpt_oss", gpt_oss_formats[0].import, NULL, NULL};
    return import_again(&k);
}

/* Element (e, two, f, c) of layer 1's matrix of gate and up, (e, c, f) of the other: by its place in blocks. */
static double up_number(int64_t e, int64_t two, int64_t f, int64_t c) {
    return block_number((e * 2 * F + 2 * f + two) * C + c);
}
static void check_experts(enum dtype kept) {
    static double up[E][2][F][C], down[E][C][F];
    const struct shape of_up = {4, {axis_whole('E', E), axis_whole('2', 2), axis_whole('F', F), axis_whole('C', C)}};
    const struct shape of_down = {3, {axis_whole('E', E), axis_whole('C', C), axis_whole('F', F)}};
    struct checkpoint_reader *r;
    enum dtype dtype;
    int64_t wrong = 0;
    assert_ok(checkpoint_open(imported, &r));
    assert_ok(checkpoint_weight_dtype(r, "h1.experts.up.w", &dtype));
    assert_int_equal(dtype, kept);
    assert_ok(checkpoint_read_weight(r, "h1.experts.up.w", &of_up, FP64, up));
    assert_ok(checkpoint_read_weight(r, "h1.experts.down.w", &of_down, FP64, down));
    checkpoint_close(&r);
    for (int64_t i = 0; i < (int64_t)E * 2 * F * C; i++)
        wrong += ((double *)up)[i] != up_number(i / (2 * F * C), i / (F * C) % 2, i / C % F, i % C);
    for (int64_t i = 0; i < (int64_t)E * C * F; i++) wrong += ((double *)down)[i] != block_number(i);
    assert_int_equal(wrong, 0);
    assert_true(up[0][0][0][0] == 0 && up[0][0][0][C - 1] != 0 && up[1][1][2][3] != up[1][0][2][3]);
}

/* Numbers of a plain file go the same way, in their own type. */
TEST(test_experts_in_mxfp4_are_their_numbers) {
    write_experts(GOOD, C);
    assert_ok(import_experts());
    check_experts(BF16);
    write_experts(NUMBERS, C);
    assert_ok(import_experts());
    check_experts(FP64);
}

TEST(test_bad_experts_in_mxfp4_are_refused) {
    static const struct { enum fault fault; const char *what, *limit; } rows[] = {
        {NO_SCALES, "gate_up_proj_scales is missing", "gate_up_proj_blocks needs a scale for each block"},
        {SCALES_OF_2_AXES, "gate_up_proj_scales has 2 axes", "not 3"},
        {FEWER_SCALES, "axis 0 of tensor", "_scales is 2, not 3"}, {BLOCKS_OF_16, "axis 2 of tensor", "_blocks is "},
        {SIGNED, "_blocks is I32", "MXFP4 has U8"}, {NOT_A_NUMBER, "block 1 of", "scale 255"},
        {TOO_LARGE, "block 1 of", "scale 253"}, {TWICE, "gate_up_proj is none of a GPT-OSS's", "there twice"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        write_experts(rows[i].fault, C);
        assert_fails(import_experts(), E_FORMAT, rows[i].what, rows[i].limit);
    }
    write_experts(GOOD, 48);
    assert_fails(import_experts(), E_FORMAT, "blocks of 32 numbers", "rows of 48");
}

TESTS(unit_test(test_what_is_there_twice_is_compared), unit_test(test_an_own_head_has_the_decoders_bias),
      unit_test(test_one_of_two_names_is_enough), unit_test(test_an_own_heads_bias_is_written_under_both_names),
      unit_test(test_experts_in_mxfp4_are_their_numbers), unit_test(test_bad_experts_in_mxfp4_are_refused))
