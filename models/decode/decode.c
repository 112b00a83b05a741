/* Decoding.
 *
 * Idea: a language model generates one token after the other, each from all before it. The training program needs a
 * whole forward pass per token, which repeats nearly all of the pass before. In a causal model position j sees nothing
 * after it, so its keys and values are equal in every pass. Decoding keeps them (the key-value cache), and runs a pass
 * for the new token alone.
 *
 *   y[t] = sum_{j <= t} softmax_j(q[t] . k[j] / sqrt(D)) v[j]
 *
 * One query over t + 1 cached keys costs O(t), not O(t^2); all other steps process one token instead of t + 1.
 *
 * In the code: decoding rewrites the model's table, like a technique, and the executor runs the result:
 *   tokens          the T axis is one token, at `first`. program_infer propagates it, so add_position takes row `first`
 *                   of its table, as for a sharded sequence. decode_move changes only `first`, and n while the prompt
 *                   is read: the prompt's tokens are known, so plan.prefill of them pass through together
 *   attention       becomes attention_cached, with a param for its cache; its H follows from qkv, already sharded by tp
 *   latents         (models/llama/mla/) are the cache themselves: the products that make keys and values of them go to
 *                   the query and to the output instead, and no head's keys and values exist (remember_latents)
 *   experts         a token is a group by itself, and its rows are packed: it costs the k experts that it has
 *   loss            is dropped: the program ends with the logits
 *   all params      no gradient, no optimizer state, no master weight; the schedule is one forward action
 *
 * Stored where: the weights as in training, 1/tp of the matrices on each rank; the cache on the rank that has the
 * heads:
 *   bytes = 2 x layers x kv-heads/tp x seq x D x bytes per element         (GPT-2 124M, fp32, 1024 tokens: 72 MiB)
 *   bytes = layers x seq x (L + S) x bytes per element, on every rank      latents of L channels, keys of S shared ones
 *
 * Sent when: with tp, the forward's two all-reduces per layer, of one token (C elements), and one for the embedding.
 * The logits are all-gathered after the program (decode_step.c). The cache is never sent.
 *
 * Time: every weight is read once per token and used for two operations, so memory is the limit: tokens per second are
 * at most memory bandwidth / bytes of weights. (Measured, GPT-2 124M on one core: 28 ms per token in fp32, 15.5 in
 * bf16, 18 and 16 GB/s; the matrix products are lib/ops/gemm/gemm.h's, with one row.) Several sequences cost little
 * more than one, and a prompt in one pass costs little more than a token, because both use a loaded weight several
 * times. Offsets are planned for the most tokens at once; fewer tokens need no more memory (decoder_init checks).
 *
 * What breaks: a cache row at another position than the token's, or a position embedding that stays at 0, still gives a
 * text, only a worse one. So the tests compare the logits of every position with the training program's.
 *
 * Source: Shazeer 2019, "Fast Transformer Decoding", section 2.3 (incremental attention); Pope et al. 2022,
 * "Efficiently Scaling Transformer Inference", section 2 (what is stored, and what bounds the speed); DeepSeek-AI 2024
 * (DeepSeek-V2), section 2.1.2 (latents: the absorbed products). */
#include "models/decode/decode.h"

#include "lib/experts/experts.h"
#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_cached.h"
#include "lib/ops/mla.h"
#include "lib/run/run.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool decode_wanted(const struct plan *plan) {
    (void)plan;
    return true;                                                     /* only decoding recipes contain this technique */
}

/* The sizes may come from an untrusted file: no sum of bytes may overflow. */
static enum status check_cache(const struct plan *p) {
    double width = (double)(p->heads * plan_head_dim(p)), most = 1e15;
    double bytes = 2.0 * (double)p->layers * (double)p->seq * width * sizeof(double);
    if (bytes < most) return OK;
    return FAIL(E_CONFIG,
                "layers=%" PRId64 ", seq=%" PRId64 " and hidden=%" PRId64
                " make a cache of %.0e bytes; the limit is %.0e",
                p->layers, p->seq, p->hidden, bytes, most);
}

static enum status decode_check(const struct plan *plan) {
    if (plan->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "device=cuda: attention over a cache has no kernel for GPUs yet; use device cpu");
    if (plan->loss_chunk != 0)
        return FAIL(E_CONFIG, "loss-chunk=%" PRId64 " never has the logits of a token; decoding needs loss-chunk 0",
                    plan->loss_chunk);
    return check_cache(plan);
}

/* ---- rewrite ---- */

/* The last step computes the loss. Drop that step; its input becomes the program's output. */
static enum status end_with_logits(struct program *p) {
    const struct step *loss = &p->steps[p->n_steps - 1];
    if (p->loss < 0 || loss->out[0] != p->loss || loss->n_weight > 0)
        return FAIL(E_INTERNAL, "the program does not end with a loss over logits");
    p->blocks[loss->block].out[0] = loss->in[0];
    p->n_steps--;
    p->loss = p->data[DATA_TARGETS] = -1;
    return OK;
}

static int add_cache(struct program *p, int block, struct type type) {
    int cache = program_add_param(p, p->blocks[block].name, "cache", type, 0, 0, false);
    p->params[cache].cache = true;
    return cache;
}

/* The step before `at` that makes the slot. */
static int maker_of(const struct program *p, int at, int slot) {
    while (at >= 0 && p->steps[at].out[0] != slot) at--;
    return at;
}

/* The steps of a layer with latents, and what they become (lib/ops/mla.h). N + U rows of each head are in W:
 *
 *   heads  linear      c W -> n v               absorb      q W -> q.absorbed
 *   kv     mla_keys    n v, s -> k v            attention   q.absorbed, c, s over the cache -> att.latent
 *   att    attention   q, k v -> y              expand      att.latent W -> u
 *   values mla_values  y -> u                   removed; without padding there is none, and u is y */
static void remember_latents(struct program *p, int keys, int att) {
    struct step *absorb = &p->steps[maker_of(p, keys, p->steps[keys].in[0])], *latent = &p->steps[keys];
    struct step *expand = &p->steps[att];
    const char *block = p->blocks[expand->block].name;
    const struct attention_rule rule = expand->attention;
    const struct mla_rule moves = latent->mla;
    int c = absorb->in[0], s = latent->in[1], q = expand->in[0], sinks = expand->weight[0];
    double D = (double)shape_axis(&p->slots[q].type.shape, 'D')->n;
    absorb->op = &op_mla_absorb, absorb->in[0] = q, absorb->mla = moves;
    absorb->out[0] = program_add_slot(p, block, "q.absorbed");
    latent->op = &op_attention_latent, latent->attention = rule;
    latent->attention.dropout.p = 0, latent->attention.unscaled = true;
    latent->attention.factor = (rule.factor > 0 ? rule.factor : 1) / sqrt(D);
    latent->n_in = 3, latent->in[0] = absorb->out[0], latent->in[1] = c, latent->in[2] = s;
    latent->out[0] = program_add_slot(p, block, "att.latent");
    latent->weight[0] = add_cache(p, latent->block,
                                  attention_latent_cache_type(&p->slots[c].type, &p->slots[s].type));
    latent->weight[1] = sinks, latent->n_weight = rule.view.sinks ? 2 : 1;
    expand->op = &op_mla_expand, expand->mla = moves;
    expand->n_in = expand->n_out = expand->n_weight = 1;
    expand->in[0] = latent->out[0], expand->weight[0] = absorb->weight[0];
    if (p->steps[att + 1].op != &op_mla_values) return;
    expand->out[0] = p->steps[att + 1].out[0];
    memmove(expand + 1, expand + 2, (size_t)(--p->n_steps - att - 1) * sizeof *expand);
}

static void remember_keys(struct program *p) {
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->steps[i];
        if (s->op != &op_attention_blocked && s->op != &op_attention_materialised) continue;
        int maker = maker_of(p, i, s->in[s->n_in - 1]);
        if (maker >= 0 && p->steps[maker].op == &op_mla_keys) {
            remember_latents(p, maker, i);
            continue;
        }
        s->op = &op_attention_cached;
        s->dropout.p = 0;
        s->n_out = 1;
        if (s->attention.view.sinks) s->weight[s->n_weight++] = s->weight[0];
        else s->n_weight = 1;
        s->weight[0] = add_cache(p, s->block, attention_cache_type(&p->slots[s->in[s->n_in - 1]].type));
    }
}

/* Each token is a group by itself, with a place at each of its experts: as in training with capacity 0. Packed, a token
 * costs the k experts that it has, and not a row of zeros at each of the others. */
static void drop_no_token(struct program *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].op->rule == RULE_MOE) p->steps[i].moe.group = p->steps[i].moe.places = 1;
    experts_pack(p);
}

static void learn_nothing(struct program *p) {
    p->forward_only = true;
    for (int i = 0; i < p->n_params; i++) {
        p->params[i].grad_residence = RESIDENT_OWN;                  /* this rank owns none (program_infer): no bytes */
        p->params[i].master = false;
        p->params[i].init_std = 0;                                   /* the checkpoint has the weights: no draws */
    }
}

enum status decode_move(struct program *p, int64_t position, int64_t n) {
    struct axis *t = &p->slots[p->data[DATA_TOKENS]].type.shape.axis[1];
    t->n = t->turn = n;
    t->first = position;
    return program_infer(p);
}

/* Decoding reads a few tokens at a time, so no technique may shard their axis. */
static enum status refuse_cut_sequence(const struct program *p) {
    for (int i = 0; i < p->n_steps; i++) {
        const struct shape *s = &p->slots[p->steps[i].out[0]].type.shape;
        for (int a = 0; a < s->n_axes; a++)
            if (s->axis[a].tag == 'T' && axis_is_sharded(&s->axis[a]))
                return FAIL(E_CONFIG,
                            "the sequence is sharded over ranks, and decoding makes one token at a time; leave sp out");
    }
    return OK;
}

/* A token's cached keys and values must not depend on later tokens. */
static enum status refuse_later_keys(const struct plan *plan, const struct program *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].op->rule == RULE_ATTENTION && p->steps[i].attention.mask != MASK_CAUSAL)
            return FAIL(E_CONFIG,
                        "arch=%s attends to later tokens, too, and decoding makes one token after the other; use arch "
                        "gpt, llama, mixtral, moe or gpt_oss",
                        plan->arch->name);
    return OK;
}

static enum status decode_rewrite(const struct plan *plan, struct program *p) {
    TRY(refuse_later_keys(plan, p));
    TRY(refuse_cut_sequence(p));
    TRY(end_with_logits(p));
    remember_keys(p);
    drop_no_token(p);
    learn_nothing(p);
    return decode_move(p, 0, plan->prefill > 1 ? plan->prefill : 1);
}

static enum status decode_schedule(const struct plan *plan, struct schedule *out) {
    (void)plan;
    *out = (struct schedule){.n_microbatches = 1};
    schedule_add(out, ACTION_F, 0, 0);
    return OK;
}

/* The steps bill themselves; add the all-gather of the last token's scores. */
static enum status decode_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    const struct program *p = c->program;
    const struct type *scores = &p->slots[p->blocks[p->n_blocks - 1].out[0]].type;
    bill_exchange(bill, &p->place, (struct exchange){.axis = AXIS_TP, .op = COMM_ALL_GATHER,
                                                     .count = plan->mesh.tp * type_n(scores) / scores->shape.axis[1].n,
                                                     .dtype = scores->dtype, .when = AT_END});
    return OK;
}

int64_t decode_cache_bytes(const struct plan *p) {
    enum dtype dtype = p->precision == PRECISION_BF16 ? BF16 : p->precision == PRECISION_FP16 ? FP16 : plan_dtype(p);
    int64_t width = plan_head_dim(p) * plan_kv_heads(p), latent = plan_number(p, "kv-lora-rank");
    int64_t of_token = latent ? latent + plan_number(p, "rope-head-dim") : 2 * (width / p->mesh.tp);
    return p->layers * p->seq * of_token * (int64_t)dtype_size(dtype);
}

const struct technique technique_decode = {
    .name = "decode", .claims = CLAIM_SCHEDULE, .wanted = decode_wanted, .check = decode_check,
    .rewrite = decode_rewrite, .schedule = decode_schedule, .cost = decode_cost};
