#include "models/gpt/gpt_hf.h"

#include "lib/checkpoint/hf_weights.h"
#include "models/gpt/gpt.h"
#include "models/gpt/gpt_weights.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char PREFIX[] = "transformer.";

static const char *without_prefix(const char *name) {
    size_t n = strlen(PREFIX);
    return strncmp(name, PREFIX, n) ? name : name + n;
}

/* The name in older files of openai-community/gpt2, which lack the prefix. */
static void old_name(const char *name, char old[PUBLISHED_NAME_MAX]) {
    snprintf(old, PUBLISHED_NAME_MAX, "%s", without_prefix(name));
}

/* The part of the name after "h.N.", and N in *layer; NULL if the name has no such prefix. */
static const char *in_layer(const char *name, int *layer) {
    char digits[10];
    int n = 0;
    name = without_prefix(name);
    if (sscanf(name, "h.%9[0-9].%n", digits, &n) != 1 || !n) return NULL;
    *layer = atoi(digits);
    return name + n;
}

/* Causal masks of old files. */
static bool is_mask(const char *name) {
    int layer;
    const char *rest = in_layer(name, &layer);
    return rest && (!strcmp(rest, "attn.bias") || !strcmp(rest, "attn.masked_bias"));
}

/* ---- sizes: of the tensors, and of config.json if it exists; else n_inner is 4 n_embd and the head is tied ---- */

static enum status find_matrix(const struct hf_files *files, const char *name, const struct safetensors_entry **out) {
    const char *path = hf_files_path(files), *old = without_prefix(name);
    const struct safetensors_entry *e = hf_files_find(files, name).entry;
    *out = e = e ? e : hf_files_find(files, old).entry;
    if (!e)
        return FAIL(E_FORMAT, "%s: tensor %s is missing; without another model_type in config.json it is read as a "
                    "gpt2", path, old);
    return e->n_axes == 2 ? OK : FAIL(E_FORMAT, "%s: tensor %s has %d axes, not 2", path, e->name, e->n_axes);
}

/* Compares config.json with the tensors. */
static enum status compare_sizes(const char *path, const struct checkpoint_model *said,
                                 const struct checkpoint_model *found) {
    const struct { const char *key; int64_t said, found; } sizes[] = {{"n_layer", said->layers, found->layers},
                                                                      {"n_embd", said->hidden, found->hidden},
                                                                      {"n_positions", said->seq, found->seq},
                                                                      {"vocab_size", said->vocab, found->vocab}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].said != sizes[i].found)
            return FAIL(E_FORMAT, "%s says %s=%" PRId64 ", and the tensors next to it say %" PRId64, path, sizes[i].key,
                        sizes[i].said, sizes[i].found);
    return OK;
}

/* Without config.json and --heads, a head has 64 channels, as in every published GPT-2. */
static enum status guess_heads(const char *path, const char *config, int64_t heads, struct checkpoint_model *m) {
    m->heads = heads ? heads : m->hidden % 64 ? 0 : m->hidden / 64;
    if (m->heads > 0 && m->hidden % m->heads == 0) return OK;
    if (m->heads == 0)
        return FAIL(E_CONFIG,
                    "%s has hidden=%" PRId64 ", no multiple of 64, and there is no %s to say the heads; give --heads",
                    path, m->hidden, config);
    return FAIL(E_CONFIG, "heads=%" PRId64 " does not divide hidden=%" PRId64 " of %s; give --heads that do", m->heads,
                m->hidden, path);
}

static enum status choose_heads(const char *path, const char *config, int64_t heads, struct checkpoint_model *m) {
    struct checkpoint_model said;
    if (access(config, F_OK) != 0) return guess_heads(path, config, heads, m);
    TRY(gpt_hf_config_read(config, &said));
    TRY(compare_sizes(config, &said, m));
    m->heads = said.heads, m->ffn = said.ffn, m->untied = said.untied;
    strcpy(m->more, said.more);
    if (heads == 0 || heads == said.heads) return OK;
    return FAIL(E_CONFIG, "heads=%" PRId64 ", and %s says n_head=%" PRId64 ": leave --heads out", heads, config,
                said.heads);
}

static enum status sizes_read(const struct hf_files *files, const char *config, int64_t heads,
                              struct checkpoint_model *m) {
    const struct safetensors_entry *wte, *wpe;
    TRY(find_matrix(files, "transformer.wte.weight", &wte));
    TRY(find_matrix(files, "transformer.wpe.weight", &wpe));
    *m = (struct checkpoint_model){.hidden = wte->shape[1], .heads = 1, .seq = wpe->shape[0], .vocab = wte->shape[0]};
    for (int i = 0; i < hf_files_n(files); i++) {
        int layer;
        if (in_layer(hf_files_at(files, i).entry->name, &layer) && layer >= m->layers) m->layers = layer + 1;
    }
    TRY(checkpoint_model_check(m, hf_files_path(files)));
    return choose_heads(hf_files_path(files), config, heads, m);
}

enum status gpt_hf_check(const struct checkpoint_model *m) { return gpt_weights_check_dense(m, "hf files of gpt2"); }

static const struct hf_again AGAIN[] = {{"lm_head.weight", "transformer.wte.weight", HF_AGAIN_TIED}, {0}};
static const struct hf_weights GPT2 = {
    .name = "GPT-2", .names = gpt_published, .model = &model_gpt, .sizes_read = sizes_read,
    .config_write = gpt_hf_config_write, .check = gpt_hf_check, .is_left_out = is_mask, .again = AGAIN,
    .old_name = old_name};

enum status gpt_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    return hf_weights_import(&GPT2, path, heads, save, out);
}

enum status gpt_hf_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    return hf_weights_export(&GPT2, r, dtype, path, HF_SHARD_BYTES);
}
