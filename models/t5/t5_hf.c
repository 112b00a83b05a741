#include "models/t5/t5_hf.h"

#include "lib/checkpoint/hf_weights.h"
#include "models/t5/t5.h"
#include <string.h>

/* Some files hold a table of distances for cross-attention, which no version of T5 reads. */
static bool is_left_out(const char *name) {
    return !strcmp(name, "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight");
}

static const struct hf_again AGAIN[] = {{"encoder.embed_tokens.weight", "shared.weight", HF_AGAIN_ALWAYS},
                                        {"decoder.embed_tokens.weight", "shared.weight", HF_AGAIN_ALWAYS},
                                        {"lm_head.weight", "shared.weight", HF_AGAIN_TIED},
                                        {0}};

enum status t5_hf_check(const struct checkpoint_model *m) {
    if (!strcmp(m->arch, "t5")) return OK;
    return FAIL(E_CONFIG, "this checkpoint is of %s, and not of t5", m->arch[0] ? m->arch : "gpt");
}

static const struct hf_weights T5 = {
    .name = "T5", .names = t5_published, .model = &model_t5, .config_read = t5_hf_config_read,
    .config_write = t5_hf_config_write, .check = t5_hf_check, .is_left_out = is_left_out,
    .again = AGAIN};

enum status t5_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    return hf_weights_import(&T5, path, heads, save, out);
}

enum status t5_hf_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    return hf_weights_export(&T5, r, dtype, path, HF_SHARD_BYTES);
}
