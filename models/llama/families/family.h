/* Llama and its relatives, as Hugging Face's transformers has them: a family, that is a model_type, is a file here and
 * a line in a list below. How to add one: docs/how-to/add-a-family.md.
 *
 * A family's file has its keys of config.json, its options and its presets. family.c reads and writes config.json by
 * it. The keys that all families have are there and in lib/checkpoint/hf_keys_shared.c. */
#pragma once

#include "lib/checkpoint/checkpoint_model.h"
#include "lib/checkpoint/hf_keys.h"

/* The families of each arch (the names of models/llama/llama.c), by their model_type. Export takes the first that has
 * the model's options. */
#define FAMILIES_OF_LLAMA(X) \
    X(llama) \
    X(mistral) \
    X(qwen2) \
    X(qwen3) \
    X(olmo2) \
    X(seed_oss)
#define FAMILIES_OF_MIXTRAL(X) \
    X(mixtral)
#define FAMILIES_OF_MOE(X) \
    X(qwen3_moe) \
    X(dots1) \
    X(deepseek_v3) \
    X(deepseek_v2)
#define FAMILIES_OF_GPT_OSS(X) \
    X(gpt_oss)

/* What a config.json says: where the keys of a table go (SAID). */
struct llama_said {
    struct checkpoint_model model;       /* sizes, the first member (hf_keys_sizes) */
    int64_t tied, head_dim, attention_bias, mlp_bias, use_window, expert_ffn, router_norm, sparse_step;
    int64_t kv_lora_rank, q_lora_rank, nope, rope, value, interleave;    /* latent attention; kv_lora_rank 0: none */
    int64_t shared, groups, groups_per_token;                            /* of experts */
    double eps, mscale_all_dim, scale, swiglu_limit;
};
#define SAID(field) offsetof(struct llama_said, field)

/* keys: those of the family besides the ones that all have. Export writes them, too, but for HF_READ. Some mean more
 * than their row says, by their names: attention_bias (HF_FLAG) turns on `bias`, and mlp_bias (HF_FLAG) --mlp-bias.
 * sliding_window (HF_READ) is the window, which all layers have; with use_sliding_window (HF_FLAG), only if that is
 * true; with max_window_layers (HF_READ), the layers from this one on; with layer_types (HF_READ), those that it
 * names. decoder_sparse_step n (HF_SIZE): every n-th layer has experts, but for those of mlp_only_layers (HF_READ).
 * norm_topk_prob (HF_FLAG) is --router-norm; without it router_norm is on. first_k_dense_replace (HF_READ) is the
 * number of layers without experts, which come first; with topk_method (HF_MUST) groups are those of
 * group_limited_greedy. With kv_lora_rank all its models have latent attention, q_lora_rank (HF_READ) may be null, and
 * a model whose layers all lack experts is of arch llama. */
struct llama_family {
    const char *architecture;            /* in "architectures" of config.json: "LlamaForCausalLM" */
    const struct hf_keys *keys;
    double theta;                        /* rope_theta, if the file says none */
    const char *bias;                    /* the value of --attention-bias that attention_bias stands for, or NULL */
    const char *always;                  /* options that all its models have, as in "qk-norm=head"; "": none */
    const char *routed;                  /* and those that all its models with experts have; NULL: none */
    const char *window_layers;           /* --window-layers without layer_types; NULL: s */
    const char *scaling;                 /* --rope-scaling without rope_parameters; NULL: none */
};

#define DECLARE_FAMILY(name) \
    extern const struct llama_family llama_family_##name; \
    extern const struct model_preset llama_presets_##name[];
/** Each family, and its sizes by name, from the config.json published with each model; the sizes end with {NULL}. */
FAMILIES_OF_LLAMA(DECLARE_FAMILY)
/** The same. */
FAMILIES_OF_MIXTRAL(DECLARE_FAMILY)
/** The same. */
FAMILIES_OF_MOE(DECLARE_FAMILY)
/** The same. */
FAMILIES_OF_GPT_OSS(DECLARE_FAMILY)

/** Read the model's sizes and options.
 *  @errors E_DATA: there is no file; E_FORMAT: it describes no Llama that Trivium computes */
enum status llama_hf_config_read(const char *path, struct checkpoint_model *out);
/** Is there a family that has the model's options? Pure. */
bool llama_hf_has_type(const struct checkpoint_model *);
/** Write the model as one of that family. @errors E_IO, E_MEMORY */
enum status llama_hf_config_write(const char *path, const struct checkpoint_model *, enum dtype);

/** A whole number from `least` on, at a row of HF_READ; least 1: or null, which is 0. NULL, no row: *out stays.
 *  @errors E_FORMAT */
enum status llama_hf_read_whole(const char *path, const json_t *config, const struct hf_key *, int64_t least,
                                int64_t *out);
/** Shorten the letters of layers to those that are repeated. @return their number */
size_t llama_hf_shorten(char *layers);

/** Say an option, unless n is 0. */
void llama_hf_say_number(struct checkpoint_model *, const char *option, int64_t n);
