/* ranks: 1  device: cpu
 *
 * Tensors that files have twice. A copy is compared before it is left out; import reads the right one of the two; and
 * export writes a tensor under both names if transformers 4 and 5 read different names. */
#include "driver/recipe.h"
#include "lib/checkpoint/hf_files.h"
#include "models/bert/bert_hf.h"
#include "models/llama/llama_hf.h"
#include "models/t5/t5_hf.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MATRIX "bert.embeddings.word_embeddings.weight"
#define HEAD "cls.predictions."

typedef enum status importer(const char *, int64_t, const char *, struct checkpoint_model *);
typedef enum status exporter(const struct checkpoint_reader *, enum dtype, const char *);
static const struct kind { const char *arch; importer *in; exporter *out; } KINDS[] = {
    {"bert", bert_hf_import, bert_hf_export}, {"t5", t5_hf_import, t5_hf_export},
    {"llama", llama_hf_import, llama_hf_export}};
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

TESTS(unit_test(test_what_is_there_twice_is_compared), unit_test(test_an_own_head_has_the_decoders_bias),
      unit_test(test_one_of_two_names_is_enough), unit_test(test_an_own_heads_bias_is_written_under_both_names))
