#include "models/bert/bert_hf.h"

#include "lib/checkpoint/hf_weights.h"
#include "models/bert/bert.h"
#include <stdio.h>
#include <string.h>

static bool begins(const char *name, const char *with) { return !strncmp(name, with, strlen(with)); }

static bool is_left_out(const char *name) {
    return begins(name, "bert.pooler.") || begins(name, "cls.seq_relationship.") ||
           !strcmp(name, "bert.embeddings.position_ids");
}

/* If the head is untied, transformers 5 reads decoder.bias, transformers 4 cls.predictions.bias: export writes both. */
static const struct hf_again AGAIN[] = {
    {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight", HF_AGAIN_TIED},
    {"cls.predictions.decoder.bias", "cls.predictions.bias", HF_AGAIN_READ_IF_UNTIED},
    {0}};

/* The name in TensorFlow's files: gamma and beta instead of weight and bias. */
static void old_name(const char *name, char old[PUBLISHED_NAME_MAX]) {
    const char *norm = strstr(name, "LayerNorm."), *is = norm ? norm + strlen("LayerNorm.") : name + strlen(name);
    const char *was = !norm ? "" : !strcmp(is, "weight") ? "gamma" : "beta";
    snprintf(old, PUBLISHED_NAME_MAX, "%.*s%s", (int)(is - name), name, was);
}

enum status bert_hf_check(const struct checkpoint_model *m) {
    if (!strcmp(m->arch, "bert")) return OK;
    return FAIL(E_CONFIG, "this checkpoint is of %s, and not of bert", m->arch[0] ? m->arch : "gpt");
}

static const struct hf_weights BERT = {
    .name = "BERT", .names = bert_published, .model = &model_bert, .config_read = bert_hf_config_read,
    .config_write = bert_hf_config_write, .check = bert_hf_check, .is_left_out = is_left_out, .again = AGAIN,
    .old_name = old_name};

enum status bert_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    return hf_weights_import(&BERT, path, heads, save, out);
}

enum status bert_hf_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    return hf_weights_export(&BERT, r, dtype, path, HF_SHARD_BYTES);
}
