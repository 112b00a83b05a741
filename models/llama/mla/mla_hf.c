/* A config.json's keys of latent attention. See families/family.h. */
#include "models/llama/families/family.h"
#include "models/llama/mla/mla.h"

#include <inttypes.h>
#include <string.h>

bool mla_hf_has_latents(const struct llama_family *f) { return hf_keys_find(f->keys, "kv_lora_rank") != NULL; }

bool mla_hf_has_key_of(const struct llama_family *f, const char *option) {
    static const char *const of[] = {"kv-lora-rank", "q-lora-rank", "rope-head-dim", "v-head-dim", "mscale-all-dim"};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        if (!strcmp(option, of[i])) return mla_hf_has_latents(f);
    return false;
}

enum status mla_hf_check(const struct checkpoint_model *m, bool has_type) {
    bool latents = strstr(m->more, "kv-lora-rank=") != NULL;
    if (has_type || (!latents && !strstr(m->more, "rope-interleave="))) return OK;
    return FAIL(E_CONFIG, "no model_type has %.160s with arch %s: deepseek_v2 and deepseek_v3 have latent attention "
                "without windows and experts, and v2 alone biases of the MLP and always rope-interleave; use %s",
                m->more, m->arch, latents ? "--window 0 --mlp-bias off" : "--rope-interleave off");
}

/* ---- reading ---- */

static const json_t *scaling_of(const json_t *config) {
    const json_t *scaling = json_object_get(config, "rope_scaling");
    return json_object_size(scaling) ? scaling : json_object_get(config, "rope_parameters");
}

enum status mla_hf_read(const char *path, const json_t *config, const struct hf_keys *keys, struct llama_said *s) {
    int64_t turned = 0;
    if (!s->kv_lora_rank) return OK;
    TRY(llama_hf_read_whole(path, config, hf_keys_find(keys, "q_lora_rank"), 1, &s->q_lora_rank));
    TRY(llama_hf_read_whole(path, config, hf_keys_find(keys, "head_dim"), 0, &turned));
    if (json_object_get(config, "head_dim") && turned != s->rope)
        return FAIL(E_FORMAT, "%s: head_dim is %" PRId64 ", and with kv_lora_rank it is qk_rope_head_dim, %" PRId64
                    ", or absent", path, turned, s->rope);
    s->mscale_all_dim = json_number_value(json_object_get(scaling_of(config), "mscale_all_dim"));
    s->head_dim = s->nope + s->rope;
    if (s->model.kv_heads && s->model.kv_heads != s->model.heads)
        return FAIL(E_FORMAT, "%s: num_key_value_heads is %" PRId64 " of %" PRId64 " heads; with kv_lora_rank every "
                    "head has keys of its own, so it must be as many, or null", path, s->model.kv_heads,
                    s->model.heads);
    if (s->value <= s->head_dim) return OK;
    return FAIL(E_FORMAT, "%s: v_head_dim is %" PRId64 ", more than the %" PRId64 " channels of a key, which Trivium "
                "does not compute", path, s->value, s->head_dim);
}

void mla_hf_say(struct checkpoint_model *m, const struct llama_said *s) {
    if (!s->kv_lora_rank) return;
    llama_hf_say_number(m, "kv-lora-rank", s->kv_lora_rank);
    llama_hf_say_number(m, "q-lora-rank", s->q_lora_rank);
    llama_hf_say_number(m, "rope-head-dim", s->rope);
    llama_hf_say_number(m, "v-head-dim", s->value);
    checkpoint_model_say_real(m, "mscale-all-dim", s->mscale_all_dim, 0);
    if (s->interleave) checkpoint_model_say(m, "rope-interleave", "on");
}

/* ---- writing ---- */

static int64_t number(const struct checkpoint_model *m, const char *option, int64_t usual) {
    return (int64_t)checkpoint_model_real(m, option, (double)usual);
}

void mla_hf_said(const struct checkpoint_model *m, struct llama_said *s) {
    char turned[MODEL_VALUE_MAX];
    checkpoint_model_said(m, "rope-interleave", turned);
    s->kv_lora_rank = number(m, "kv-lora-rank", 0), s->rope = number(m, "rope-head-dim", 0);
    s->nope = s->head_dim - s->rope, s->value = number(m, "v-head-dim", s->nope);
    s->interleave = !strcmp(turned, "on");
}

json_t *mla_hf_write(json_t *config, const struct checkpoint_model *m, const struct llama_family *f) {
    json_int_t q = (json_int_t)number(m, "q-lora-rank", 0);
    double mscale = checkpoint_model_real(m, "mscale-all-dim", 0);
    if (!mla_hf_has_latents(f)) return config;
    int failed = json_object_set_new(config, "q_lora_rank", q ? json_integer(q) : json_null());
    if (mscale > 0)
        failed |= json_object_set_new(json_object_get(config, "rope_scaling"), "mscale_all_dim", json_real(mscale));
    if (failed) json_decref(config);
    return failed ? NULL : config;
}
