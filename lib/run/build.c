#include "lib/run/build.h"

#include "lib/base/rng.h"
#include "lib/ops/attention/attention_bias.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/linear.h"
#include "lib/ops/linear_cross_entropy.h"
#include "lib/ops/moe/moe_route.h"
#include <stdio.h>

/* ---- types ---- */
static struct axis axis_of(const struct plan *c, char tag) {
    if (tag == 'B') return (struct axis){.tag = 'B', .n = c->micro_batch, .global = c->global_batch,
                                         .cut = 1u << AXIS_DP};
    if (tag == 'T') return axis_whole('T', c->seq);
    if (tag == 'C') return axis_whole('C', c->hidden);
    if (tag == 'H') return axis_whole('H', c->heads);
    if (tag == 'D') return axis_whole('D', plan_head_dim(c));
    if (tag == 'J') return axis_whole('J', plan_kv_heads(c));
    if (tag == 'K' || tag == 'F') return axis_whole(tag, plan_ffn(c));
    if (tag == 'E') return axis_whole('E', model_options(c)->experts);
    if (tag == 'R') return axis_whole('R', ATTENTION_BUCKETS);
    if (tag == 'V') return (struct axis){.tag = 'V', .n = plan_vocab_rows(c, 1), .global = c->vocab};
    return axis_whole(tag, tag - '0');
}

struct type build_type(const struct plan *c, const char *axes, enum dtype dtype) {
    struct type t = {.dtype = dtype};
    for (; *axes; axes++) t.shape.axis[t.shape.n_axes++] = axis_of(c, *axes);
    return t;
}

/* ---- params ---- */
static const char *block_name(const struct builder *b) { return b->p->blocks[b->p->n_blocks - 1].name; }

int build_matrix(struct builder *b, const char *name, const char *axes, double std) {
    return program_add_param(b->p, block_name(b), name, build_type(b->plan, axes, plan_dtype(b->plan)), std, 0, true);
}

int build_vector(struct builder *b, const char *name, const char *axes, double constant) {
    return program_add_param(b->p, block_name(b), name, build_type(b->plan, axes, plan_dtype(b->plan)), 0, constant,
                             false);
}

void build_set_axis(struct builder *b, int param, char tag, int64_t n) {
    struct shape *s = &b->p->params[param].type.shape;
    for (int i = 0; i < s->n_axes; i++)
        if (s->axis[i].tag == tag) s->axis[i] = axis_whole(tag, n);
}

/* ---- steps ---- */
static bool stores_masks(const struct model_options *m) { return m->dropout > 0 && m->dropout_masks == MASKS_STORE; }

static void add_outputs(struct builder *b, struct step *s, const char *name) {
    int n = op_n_out(s->op, stores_masks(model_options(b->plan)));
    s->out[s->n_out++] = program_add_slot(b->p, block_name(b), name);
    while (s->n_out < n) {
        char more[NAME_MAX_LEN];
        snprintf(more, sizeof more, "%s.%s", name, s->op->out_name[s->n_out]);
        s->out[s->n_out++] = program_add_slot(b->p, block_name(b), more);
    }
}

static struct moe_rule moe_rule(const struct plan *p) {
    const struct model_options *m = model_options(p);
    int64_t k = m->experts_per_token, group = plan_moe_group(p);
    return (struct moe_rule){.experts = m->experts, .k = k, .group = group, .aux = m->aux_loss, .z = m->z_loss,
                             .places = moe_places(m->capacity, group, k, m->experts), .packed = m->moe_packed};
}

static void set_rule(const struct plan *plan, struct step *s, const char *site) {
    struct dropout_rule *dropout = step_dropout(s);
    if (dropout) dropout->stream = rng_stream(site);
    if (s->op->rule == RULE_ATTENTION) s->attention.core = (enum attention_core)plan->attention_core;
    if (s->op->rule == RULE_HEAD) s->head.rows = plan->loss_chunk;
    if (s->op->rule == RULE_NORM) s->norm.eps = model_options(plan)->norm_eps;
    if (s->op->rule == RULE_MOE) s->moe = moe_rule(plan);
}

int build_step(struct builder *b, const struct op *op, const char *name, struct inputs in) {
    struct program *p = b->p;
    struct step s = {.op = op, .block = p->n_blocks - 1, .parts = 1};
    s.in[s.n_in++] = in.x;
    if (in.second != NONE) s.in[s.n_in++] = in.second;
    if (in.weight != NONE) s.weight[s.n_weight++] = in.weight;
    if (in.bias != NONE) s.weight[s.n_weight++] = in.bias;
    add_outputs(b, &s, name);
    set_rule(b->plan, &s, p->slots[s.out[0]].name);
    program_insert(p, p->n_steps, &s);
    return s.out[0];
}

int build_dropout(struct builder *b, int slot) {
    step_dropout(&b->p->steps[b->p->n_steps - 1])->p = model_options(b->plan)->dropout;
    return slot;
}

/* ---- data ---- */
int build_data(struct builder *b, enum data_kind kind, const char *name) {
    int slot = b->p->data[kind] = program_add_slot(b->p, "data", name);
    b->p->slots[slot].type = build_type(b->plan, "BT", INT32);
    return slot;
}

int build_tokens(struct builder *b, const char *block) {
    program_add_block(b->p, block, NONE, false);
    return build_data(b, DATA_TOKENS, "tokens");
}

void build_head(struct builder *b, int x, int table, int bias) {
    int next = build_data(b, DATA_TARGETS, "targets");            /* the loss compares logits with them */
    if (b->plan->loss_chunk > 0) {
        b->p->loss = build_step(b, &op_linear_cross_entropy, "loss", (struct inputs){x, next, table, bias});
        return;
    }
    x = build_step(b, &op_linear, "logits", (struct inputs){x, NONE, table, bias});
    b->p->loss = build_step(b, &op_cross_entropy, "loss", (struct inputs){x, next, NONE, NONE});
}
