/* The steps of latent attention. See mla.h. */
#include "models/llama/mla/mla.h"

#include "lib/ops/linear.h"
#include "lib/ops/mla.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/rope.h"
#include <inttypes.h>
#include <string.h>

#define LATENT_EPS 1e-6

int64_t mla_value(const struct plan *p, const struct mla_options *o) {
    return o->v_head_dim ? o->v_head_dim : plan_head_dim(p) - o->rope_head_dim;
}

double mla_factor(const struct mla_options *o, const struct rope_rule *rule) {
    double scale = o->mscale_all_dim > 0 ? rope_yarn_attention(rule->factor, o->mscale_all_dim) : 1;
    return scale * scale;
}

/* ---- building ---- */

/* Axes as in build.h, and A the latent with the shared key, L the latent, Q the queries' latent, W channels of W_b, U
 * those of a value, as an axis D. */
static struct axis axis_of(const struct plan *p, const struct mla_options *o, char tag) {
    if (tag == 'A') return axis_whole('A', o->kv_lora_rank + o->rope_head_dim);
    if (tag == 'L') return axis_whole('L', o->kv_lora_rank);
    if (tag == 'Q') return axis_whole('Q', o->q_lora_rank);
    if (tag == 'W') return axis_whole('W', plan_head_dim(p) - o->rope_head_dim + mla_value(p, o));
    if (tag == 'U') return axis_whole('D', mla_value(p, o));
    return build_type(p, (char[]){tag, 0}, FP64).shape.axis[0];
}

static int param(struct builder *b, const struct mla_options *o, const char *name, const char *axes, double std,
                 double constant) {
    struct type t = {.dtype = plan_dtype(b->plan)};
    for (; *axes; axes++) t.shape.axis[t.shape.n_axes++] = axis_of(b->plan, o, *axes);
    return program_add_param(b->p, b->p->blocks[b->p->n_blocks - 1].name, name, t, std, constant, std > 0);
}

static int linear(struct builder *b, const struct mla_options *o, const char *name, const char *weight,
                  const char *axes, int x) {
    return build_step(b, &op_linear, name, (struct inputs){x, NONE, param(b, o, weight, axes, 0.02, 0), NONE});
}

static struct step *last(struct builder *b) { return &b->p->steps[b->p->n_steps - 1]; }

static int norm(struct builder *b, const struct mla_options *o, const char *name, const char *gain, const char *axis,
                int x) {
    int y = build_step(b, &op_rmsnorm, name, (struct inputs){x, NONE, param(b, o, gain, axis, 0, 1), NONE});
    last(b)->norm.eps = LATENT_EPS;
    return y;
}

static int move(struct builder *b, const struct mla_options *o, const struct op *op, const char *name, int x,
                int second) {
    int y = build_step(b, op, name, (struct inputs){x, second, NONE, NONE});
    last(b)->mla = (struct mla_rule){o->kv_lora_rank, mla_value(b->plan, o)};
    return y;
}

static int turn(struct builder *b, const struct rope_rule *rule, const char *name, int x, int64_t first) {
    int y = build_step(b, &op_rope, name, (struct inputs){x, NONE, NONE, NONE});
    last(b)->rope = *rule;
    last(b)->rope.first = first;
    return y;
}

int mla_queries(struct builder *b, const struct mla_options *o, const struct rope_rule *rule, int h) {
    int64_t before = plan_head_dim(b->plan) - o->rope_head_dim;
    if (!o->q_lora_rank) return turn(b, rule, "q.turned", linear(b, o, "q", "q.w", "HDC", h), before);
    int c = norm(b, o, "q.a.norm", "q.a.norm.g", "Q", linear(b, o, "q.a", "q.a.w", "QC", h));
    return turn(b, rule, "q.turned", linear(b, o, "q.heads", "q.b.w", "HDQ", c), before);
}

int mla_keys_and_values(struct builder *b, const struct mla_options *o, const struct rope_rule *rule, int h) {
    int c = move(b, o, &op_mla_split, "latent", linear(b, o, "kv.a", "kv.a.w", "AC", h), NONE), key = last(b)->out[1];
    c = norm(b, o, "kv.a.norm", "kv.a.norm.g", "L", c);
    key = turn(b, rule, "k.turned", key, 0);
    return move(b, o, &op_mla_keys, "kv", linear(b, o, "kv.heads", "kv.b.w", "JWL", c), key);
}

int mla_outputs(struct builder *b, const struct mla_options *o, const struct rope_rule *rule, int y) {
    last(b)->attention.factor = mla_factor(o, rule);
    return mla_value(b->plan, o) == plan_head_dim(b->plan) ? y : move(b, o, &op_mla_values, "att.values", y, NONE);
}

int mla_projection(struct builder *b, const struct mla_options *o, double std) {
    return param(b, o, "proj.w", "CHU", std, 0);
}

/* ---- checks ---- */

static enum status check_widths(const struct plan *p, const struct mla_options *o) {
    int64_t D = plan_head_dim(p), S = o->rope_head_dim, U = mla_value(p, o), some = D / 4 * 2;
    if (some == 0)
        return FAIL(E_CONFIG, "head-dim=%" PRId64 " has no room for channels with and without positions; use "
                    "--head-dim 4 --rope-head-dim 2, or more", D);
    if (S < 2 || S % 2 || S >= D)
        return FAIL(E_CONFIG, "rope-head-dim=%" PRId64 ": of a head's %" PRId64 " channels (--head-dim) the last ones "
                    "turn by pairs, and others do not; use %" PRId64, S, D, some);
    if (U <= D) return OK;
    return FAIL(E_CONFIG, "v-head-dim=%" PRId64 " is more than head-dim=%" PRId64 ", and values are filled up to a "
                "key's width; use at most %" PRId64, U, D, D);
}

/* Without latent attention its other options would be ignored. */
static enum status check_off(const struct mla_options *o) {
    if (!o->q_lora_rank && !o->rope_head_dim && !o->v_head_dim && !(o->mscale_all_dim > 0)) return OK;
    return FAIL(E_CONFIG, "q-lora-rank=%" PRId64 ", rope-head-dim=%" PRId64 ", v-head-dim=%" PRId64 " and "
                "mscale-all-dim=%g are of latent attention, and kv-lora-rank=0; give --kv-lora-rank, or leave them out",
                o->q_lora_rank, o->rope_head_dim, o->v_head_dim, o->mscale_all_dim);
}

enum status mla_check(const struct plan *p, const struct mla_options *o, const struct rope_rule *rule, bool others) {
    if (!o->kv_lora_rank) return check_off(o);
    TRY(check_widths(p, o));
    if (plan_kv_heads(p) != p->heads)
        return FAIL(E_CONFIG, "kv-heads=%" PRId64 ", and with kv-lora-rank=%" PRId64 " each of heads=%" PRId64 " has "
                    "keys of its own; use --kv-heads %" PRId64, plan_kv_heads(p), o->kv_lora_rank, p->heads, p->heads);
    if (others)
        return FAIL(E_CONFIG, "latent attention (kv-lora-rank=%" PRId64 ") has norms of its own, and no biases; use "
                    "--qk-norm none --attention-bias none", o->kv_lora_rank);
    if (o->mscale_all_dim > 0 && rule->scaling < ROPE_YARN)
        return FAIL(E_CONFIG, "mscale-all-dim=%g is of yarn, which does not slow these positions; use --rope-scaling "
                    "yarn:FACTOR:CONTEXT, or leave mscale-all-dim out", o->mscale_all_dim);
    if (p->sums != PLAN_SUMS_FIXED) return OK;
    return FAIL(E_CONFIG, "sums=fixed has no order for the sums over heads that kv-lora-rank=%" PRId64 " makes; use "
                "sums=fast", o->kv_lora_rank);
}

/* ---- counting ---- */

int64_t mla_matrices(const struct plan *p, const struct mla_options *o) {
    int64_t C = p->hidden, H = p->heads, D = plan_head_dim(p), U = mla_value(p, o), Q = o->q_lora_rank;
    return (Q ? Q * C + H * D * Q : H * D * C) + (o->kv_lora_rank + o->rope_head_dim) * C +
           H * (D - o->rope_head_dim + U) * o->kv_lora_rank + C * H * U;
}
