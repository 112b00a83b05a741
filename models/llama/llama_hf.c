#include "models/llama/llama_hf.h"

#include "lib/checkpoint/hf_weights.h"
#include "models/llama/llama.h"
#include <inttypes.h>
#include <string.h>

/* Old files hold tables of frequencies, which rope_theta determines. */
static bool is_frequency_table(const char *name) {
    return strstr(name, ".rotary_emb.inv_freq") != NULL;
}

/* Gemma 2 has a cap, and is more than that. GPT-OSS has sinks, with all that its models have. */
static enum status check_scores(const struct checkpoint_model *m) {
    char cap[MODEL_VALUE_MAX], sinks[MODEL_VALUE_MAX];
    checkpoint_model_said(m, "attention-cap", cap);
    checkpoint_model_said(m, "attention-sinks", sinks);
    if (sinks[0] && !llama_hf_has_type(m))
        return FAIL(E_CONFIG, "attention-sinks=on, and of model_types that are written gpt_oss alone has sinks, with "
                    "--arch gpt_oss --expert-bias on --router-bias on and --swiglu-limit; use these, or "
                    "--attention-sinks off");
    if (!cap[0]) return OK;
    return FAIL(E_CONFIG, "attention-cap=%s, and no model_type that is written has a cap; use --attention-cap 0", cap);
}

static enum status check_experts(const struct checkpoint_model *m) {
    char norm[MODEL_VALUE_MAX];
    bool of_gpt_oss = !strcmp(m->arch, "gpt_oss") || strstr(m->more, "-bias=on") || strstr(m->more, "swiglu-limit=");
    if (of_gpt_oss && m->experts && !llama_hf_has_type(m))
        return FAIL(E_CONFIG, "no model of transformers has %.200s with arch %s; gpt_oss has --attention-bias all or "
                    "none, --attention-sinks, --expert-bias and --router-bias on, and --swiglu-limit: use --arch "
                    "gpt_oss with these alone, or none of the last four", m->more, m->arch);
    checkpoint_model_said(m, "router-norm", norm);
    if (m->experts_per_token == 1 && !norm[0])
        return FAIL(E_CONFIG, "experts-per-token=1: transformers' %s gives that expert weight 1, and Trivium its "
                    "probability; such files have experts-per-token=2 or more", m->arch);
    bool plain = !strstr(m->more, "shared-experts=") && !strstr(m->more, "router-s") && !strstr(m->more, "router-g");
    if (llama_hf_has_type(m) || (plain && !strstr(m->more, "expert-") && !norm[0])) return OK;
    if (plain)
        return FAIL(E_CONFIG, "no model of transformers has %.200s with arch %s; use --arch moe (Qwen3-MoE) with "
                    "--qk-norm head, or leave out --expert-ffn, --expert-layers and --router-norm", m->more, m->arch);
    return FAIL(E_CONFIG, "no model of transformers has %.240s with arch %s; use --arch moe --qk-norm head "
                "--router-scores sigmoid --shared-experts 1 (dots1), or --shared-experts 0 with no option of routers",
                m->more, m->arch);
}

enum status llama_hf_check(const struct checkpoint_model *m) {
    if (strcmp(m->arch, "llama") && strcmp(m->arch, "mixtral") && strcmp(m->arch, "moe") &&
        strcmp(m->arch, "gpt_oss"))
        return FAIL(E_CONFIG, "this checkpoint is of %s, and not of llama", m->arch[0] ? m->arch : "gpt");
    TRY(check_experts(m));
    TRY(moe_hf_check(m));
    TRY(check_scores(m));
    TRY(mla_hf_check(m, llama_hf_has_type(m)));
    if (!llama_hf_has_type(m) && strstr(m->more, "window="))
        return FAIL(E_CONFIG, "the model has %.120s, and no model_type has these together: mistral and mixtral have a "
                    "window in all layers, qwen2 and qwen3 in some; use --window 0 --window-layers s", m->more);
    char bias[MODEL_VALUE_MAX];
    checkpoint_model_said(m, "attention-bias", bias);
    if (!llama_hf_has_type(m) && strstr(m->more, "-norm="))
        return FAIL(E_CONFIG, "no model of transformers has %.100s with arch %s; use --arch llama --qk-norm head (Qwen "
                    "3), or --qk-norm all --post-norm on (OLMo 2), with no other option of a Llama", m->more, m->arch);
    if (!llama_hf_has_type(m))
        return FAIL(E_CONFIG, "no model of transformers has attention-bias=%s with arch %s; use --attention-bias none",
                    bias, m->arch);
    if (strcmp(m->arch, "llama") || !m->experts) return OK;
    return FAIL(E_CONFIG,
                "this llama has experts=%" PRId64 ", which Hugging Face calls mixtral; train with arch=mixtral",
                m->experts);
}

static const struct hf_again AGAIN[] = {{"lm_head.weight", "model.embed_tokens.weight", HF_AGAIN_TIED}, {0}};
static const struct hf_weights LLAMA = {
    .name = "Llama", .names = llama_published, .fused = llama_fused, .model = &model_llama,
    .config_read = llama_hf_config_read, .config_write = llama_hf_config_write, .check = llama_hf_check,
    .is_left_out = is_frequency_table, .again = AGAIN};

static const struct hf_weights MOE = {
    .name = "Qwen3-MoE", .names = moe_published, .fused = llama_fused, .model = &model_llama,
    .config_read = llama_hf_config_read, .config_write = llama_hf_config_write, .check = llama_hf_check,
    .is_left_out = is_frequency_table, .again = AGAIN};

enum status moe_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    return hf_weights_import(&MOE, path, heads, save, out);
}
enum status moe_hf_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    return hf_weights_export(&MOE, r, dtype, path, HF_SHARD_BYTES);
}

enum status llama_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out) {
    return hf_weights_import(&LLAMA, path, heads, save, out);
}

enum status llama_hf_export_sharded(const struct checkpoint_reader *r, enum dtype dtype, const char *path,
                                    int64_t shard_bytes) {
    return hf_weights_export(&LLAMA, r, dtype, path, shard_bytes);
}

enum status llama_hf_export(const struct checkpoint_reader *r, enum dtype dtype, const char *path) {
    return llama_hf_export_sharded(r, dtype, path, HF_SHARD_BYTES);
}
