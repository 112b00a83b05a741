/* Multi-head latent attention, in place of a Llama's queries, keys and values (--kv-lora-rank).
 *
 *   a = W_a h        (L + S)   c = rmsnorm(a[0 .. L))   s = rope(a[L .. L + S))      the latent; a key for all heads
 *   [n ; v] = W_b c  (N + U) of each head               k = [n ; s]                  N + S = D channels; its value: U
 *   q = W_q h        (D) of each head, or W_qb rmsnorm(W_qa h) with --q-lora-rank Q  rope turns its last S channels
 *   y = attention(q, k, v)                              scores q . k factor / sqrt(D)
 *
 * Channels: D is --head-dim, S --rope-head-dim, U --v-head-dim, L --kv-lora-rank. The latents' norms have an eps of
 * their own, 1e-6, as in the reference, whatever --norm-eps is. factor: with --mscale-all-dim m and positions slowed by
 * yarn:FACTOR, (0.1 m ln FACTOR + 1)^2.
 *
 * Why: a token's cache is c and s, L + S numbers for all heads, not 2 D of each (DeepSeek-V2: 576, not 49152).
 * models/decode/ keeps these, and makes no head's keys and values; in training they exist. lib/ops/mla.h has the moves
 * between these products, decoding's products, and what the values' padding costs.
 *
 * tp: heads are sharded (W_q or W_qb, W_b, W_o), and every rank has a, c, s and their weights whole. The gradients of
 * c, s and rmsnorm(W_qa h) are sums over heads: tp enters behind them, three all-reduces a layer in backward, of L, S
 * and Q numbers a token, where a Llama has one of C. With sp each rank computes a of its own tokens, and gathers c and
 * s.
 *
 * Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1 and appendix C; 2024 (DeepSeek-V3). */
#pragma once

#include "lib/checkpoint/hf_keys.h"
#include "lib/run/build.h"

/* The options, in the struct of the model's (models/llama/llama.h). kv_lora_rank 0: there is no latent attention. */
struct mla_options {
    int64_t kv_lora_rank, q_lora_rank, rope_head_dim, v_head_dim;    /* channels; q and v 0: as the options say */
    double mscale_all_dim;                                           /* 0: scores have no other factor */
    int rope_interleave;                         /* rope turns neighboring channels, also without latent attention */
};

/* The rows of the options, for the model's table: `field` of `owner` is the struct. */
#define MLA_OPTIONS(owner, field) \
    {"kv-lora-rank", OPTION_INT, "0", 0, 1e6, NULL, "channels", \
     "llama: multi-head latent attention (DeepSeek-V2): channels of the latent that keys and values are " \
     "products of; 0: they are products of the layer's input", "model", \
     offsetof(owner, field.kv_lora_rank)}, \
    {"q-lora-rank", OPTION_INT, "0", 0, 1e6, NULL, "channels", \
     "llama: latent attention's queries are products of another latent; 0: of the layer's input", "model", \
     offsetof(owner, field.q_lora_rank)}, \
    {"rope-head-dim", OPTION_INT, "0", 0, 1e6, NULL, "channels", \
     "llama: latent attention: of the --head-dim channels of a query or key the last ones, which have positions, and " \
     "which all keys share", "model", offsetof(owner, field.rope_head_dim)}, \
    {"v-head-dim", OPTION_INT, "0", 0, 1e6, NULL, "channels", \
     "llama: latent attention: channels of a head's value; 0: head-dim - rope-head-dim", "model", \
     offsetof(owner, field.v_head_dim)}, \
    {"mscale-all-dim", OPTION_REAL, "0", 0, 1e6, NULL, "", \
     "llama: latent attention with rope-scaling yarn:FACTOR: scores have one more factor, the square of 0.1 " \
     "mscale-all-dim ln FACTOR + 1 (DeepSeek)", "model", offsetof(owner, field.mscale_all_dim)}, \
    {"rope-interleave", OPTION_BOOL, "off", 0, 0, NULL, "", \
     "llama: rotary positions turn neighboring channels (DeepSeek), and not those that are half a head apart", \
     "model", offsetof(owner, field.rope_interleave)}

/* The rows of what others call its weights and slots (lib/run/published.h); attn: the name of the layer's attention. */
#define MLA_PUBLISHED(attn) \
    {"h%d.q.a.w", {attn "q_a_proj.weight"}, "Q C"}, \
    {"h%d.q.a.norm.g", {attn "q_a_layernorm.weight"}, "Q"}, \
    {"h%d.q.b.w", {attn "q_b_proj.weight"}, "HD Q"}, \
    {"h%d.kv.a.w", {attn "kv_a_proj_with_mqa.weight"}, "A C"}, \
    {"h%d.kv.a.norm.g", {attn "kv_a_layernorm.weight"}, "L"}, \
    {"h%d.kv.b.w", {attn "kv_b_proj.weight"}, "JW L"}, \
    {"h%d.q.a", {attn "q_a_proj"}, "B T Q"}, \
    {"h%d.q.heads", {attn "q_b_proj"}, "B T HD"}, \
    {"h%d.kv.a", {attn "kv_a_proj_with_mqa"}, "B T A"}, \
    {"h%d.kv.heads", {attn "kv_b_proj"}, "B T JW"}

/** Refuse sizes that do not fit. others: the model has other norms of queries, or biases. @errors E_CONFIG
 *  @collective{none} */
enum status mla_check(const struct plan *, const struct mla_options *, const struct rope_rule *, bool others);

/** Append the steps of queries (B,T,H,D), and of keys and values (B,T,2,J,D), of the layer's normalised input h
 *  (B,T,C). The rule is that of positions; its `first` is not read. @return the slot */
int mla_queries(struct builder *, const struct mla_options *, const struct rope_rule *, int h);
int mla_keys_and_values(struct builder *, const struct mla_options *, const struct rope_rule *, int h);
/** Give attention, the last step, its factor, and append the step that drops the padding of its output y (B,T,H,D), if
 *  there is padding. @return (B,T,H,U) */
int mla_outputs(struct builder *, const struct mla_options *, const struct rope_rule *, int y);
/** Add the weight of the projection (C,H,U). @return the param */
int mla_projection(struct builder *, const struct mla_options *, double std);
/** The factor of scores besides 1 / sqrt(D). Pure. */
double mla_factor(const struct mla_options *, const struct rope_rule *);

/** Refuse to export latents, or neighbors that turn, of which no model_type has them together. has_type: one has. Pure.
 *  @errors E_CONFIG */
struct checkpoint_model;
enum status mla_hf_check(const struct checkpoint_model *, bool has_type);

/** Channels of a head's value. Pure. */
int64_t mla_value(const struct plan *, const struct mla_options *);
/** Parameters of a layer's matrices of attention. Pure. */
int64_t mla_matrices(const struct plan *, const struct mla_options *);
/** Parameters of a layer's norms of latents. Pure. */
static inline int64_t mla_norms(const struct mla_options *o) { return o->kv_lora_rank + o->q_lora_rank; }

/* ---- keys of config.json (mla_hf.c); families/family.h has both structs ---- */
struct llama_family;
struct llama_said;
struct checkpoint_model;

/** Have all the family's models latent attention? Pure. */
bool mla_hf_has_latents(const struct llama_family *);
/** Has the family a key for this option of latents? Pure. */
bool mla_hf_has_key_of(const struct llama_family *, const char *option);
/** What the rows of the table do not say of latents, and channels of a head. @errors E_FORMAT */
enum status mla_hf_read(const char *path, const json_t *config, const struct hf_keys *, struct llama_said *);
/** Say the options of latents. */
void mla_hf_say(struct checkpoint_model *, const struct llama_said *);
/** The keys' values of a model that is written; and set those that are HF_READ. @return config; NULL: no memory */
void mla_hf_said(const struct checkpoint_model *, struct llama_said *);
/** The same. */
json_t *mla_hf_write(json_t *config, const struct checkpoint_model *, const struct llama_family *);
