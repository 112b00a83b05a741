/* Tensor parallelism.
 *
 * Idea: shard the two matrix products of a half layer in matching ways, by columns and then by rows. Then one
 * all-reduce per half layer is all the communication.
 *
 *   Y = gelu(X A) B       A by columns: A = [A_1 | A_2]      rank r computes gelu(X A_r): elementwise, no communication
 *                         B by rows:    B = [B_1 ; B_2]      Y = sum_r gelu(X A_r) B_r: one all-reduce
 *
 * Attention is the same with heads for columns: qkv gives rank r its own heads, each head works alone, proj is sharded
 * by rows. The vocabulary is sharded by rows of wte. Rank r looks up the tokens of its rows; other tokens give zero,
 * and one all-reduce adds. Rank r also computes the logits of its rows. The loss gathers no logits
 * (tp_cross_entropy.c, tp_linear_cross_entropy.c). A norm over all heads adds B T squares over the ranks.
 *
 * In the code, axes carry letters: H heads, J heads of keys and values, K hidden units of the MLP, V vocabulary. tp
 * shards those axes of every param; everything else follows from the shapes:
 *   a product that makes a sharded axis      reads a whole input:         tp_enter before it   (f: backward all-reduce)
 *   a product that sums over a sharded axis  makes a partial sum:         tp_exit after it     (g: forward all-reduce)
 *
 * Stored where: 1/tp of each matrix. Layernorms, the position table and the biases of proj and fc2 are whole on every
 * rank, and stay equal because their gradients are equal. If tp does not divide V, the last ranks pad with zero rows,
 * which the softmax leaves out. Sent when, per layer: two all-reduces of (B,T,C) forward (proj, fc2) and two backward
 * (qkv, fc): 4 x 2 (tp-1)/tp B T C elements.
 *
 * What breaks: a bias added before the all-reduce is counted tp times. Dropout after the all-reduce must draw the same
 * mask on every rank, dropout within heads a different one. Masks are drawn by global index, which ensures both.
 *
 * With --sp the sequence is sharded between regions: tp_enter and tp_exit become sp_enter and sp_exit (tp_sequence.c).
 * A whole weight that sees only T/tp tokens (layernorms, biases of proj and fc2, the position table) then has a partial
 * gradient on every rank, which the run all-reduces (lib/run/combine.h). The shapes tell which weights those are.
 *
 * Source: Shoeybi et al. 2019, "Megatron-LM", section 3; Korthikanti et al. 2022, section 4.2 (--sp). */
#include "tp/tp.h"

#include "lib/base/integer.h"
#include "lib/ops/branch.h"
#include "lib/ops/cross_entropy.h"
#include "lib/ops/embedding.h"
#include "lib/ops/linear.h"
#include "lib/ops/linear_cross_entropy.h"
#include "lib/ops/mla.h"
#include "lib/ops/rmsnorm.h"
#include "lib/run/run.h"
#include "tp/tp_cross_entropy.h"
#include "tp/tp_region.h"
#include "tp/tp_sequence.h"
#include <inttypes.h>
#include <string.h>

static const struct option OPTIONS[] = {
    {"sp", OPTION_BOOL, "off", 0, 0, NULL, "",
     "sequence parallelism: activations between tp regions are sharded along the sequence; tp must divide seq",
     "parallelism", offsetof(struct tp_options, sp)},
};

/* With --sums fixed, tp=1 also rewrites, so that one rank adds in the order of many (lib/program/sums.h). */
static bool tp_wanted(const struct plan *plan) {
    return plan->mesh.tp > 1 || tp_options(plan)->sp || plan->sums == PLAN_SUMS_FIXED;
}

static enum status tp_check(const struct plan *plan) {
    if (plan->heads % plan->mesh.tp)
        return FAIL(E_CONFIG, "tp=%" PRId64 " does not divide heads=%" PRId64 "; use %s", plan->mesh.tp, plan->heads,
                    plan_divisors(plan->heads, plan->heads));
    int64_t ffn = model_options(plan)->experts ? plan->mesh.tp : plan_ffn(plan);    /* tp cuts no experts */
    if (plan_kv_heads(plan) % plan->mesh.tp || ffn % plan->mesh.tp)
        return FAIL(E_CONFIG,
                    "tp=%" PRId64 " does not divide both kv-heads=%" PRId64 " and ffn=%" PRId64 "; use one of %s",
                    plan->mesh.tp, plan_kv_heads(plan), plan_ffn(plan),
                    plan_divisors(common_divisor(plan_kv_heads(plan), ffn), plan->heads));
    if (plan->mesh.tp > 1 && plan->vocab == 1)
        return FAIL(E_CONFIG, "tp=%" PRId64 " shards the vocabulary, and vocab=1 has one row; use vocab 2, or tp 1",
                    plan->mesh.tp);
    if (plan->sums == PLAN_SUMS_FIXED) TRY(tp_leaves_check(plan));
    if (tp_options(plan)->sp && plan->mesh.tp == 1)
        return FAIL(E_CONFIG, "sp shards the sequence over tp, and tp=1; use tp 2 or more, or leave sp out");
    if (tp_options(plan)->sp && plan->seq % plan->mesh.tp)
        return FAIL(E_CONFIG, "sp: tp=%" PRId64 " does not divide seq=%" PRId64 "; use %s (1: without sp)",
                    plan->mesh.tp, plan->seq, plan_divisors(common_divisor(plan->seq, plan->heads), plan->heads));
    return OK;
}

/* ---- sharding ---- */
static bool is_tp_axis(char tag) { return strchr("HJKV", tag) != NULL; }

/* This rank's shard of an axis; the vocabulary is rounded up so that shards are equal. */
static void narrow(struct axis *a, const struct plan *plan) {
    if (a->leaves) a->n = tp_leaves_part(a, plan->mesh.tp);
    else a->n = a->tag == 'V' ? plan_vocab_rows(plan, plan->mesh.tp) : a->global / plan->mesh.tp;
    a->first = a->n * plan->place.rank.tp;
    a->cut |= 1u << AXIS_TP;
}

static void shard_params(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        struct shape *shape = &p->params[i].type.shape;
        for (int k = 0; k < shape->n_axes; k++)
            if (is_tp_axis(shape->axis[k].tag)) narrow(&shape->axis[k], plan);
    }
}

/* ---- enter and exit ---- */
static bool any_cut(const struct axis *a, int n) {
    for (int i = 0; i < n; i++)
        if (is_tp_axis(a[i].tag)) return true;
    return false;
}

/* The output of a linear op has its weight's leading axes. The op sums over the others, the axes of x after B and T. In
 * mla_keys all heads have the same key, in[1]. */
static bool makes_cut_axis(const struct program *p, const struct step *s) {
    if (s->op == &op_mla_keys) return true;
    if (s->op != &op_linear && s->op != &op_linear_cross_entropy) return false;
    const struct shape *w = &p->params[s->weight[0]].type.shape, *x = &p->slots[s->in[0]].type.shape;
    return any_cut(w->axis, w->n_axes - (x->n_axes - 2));
}
static bool sums_over_cut_axis(const struct program *p, const struct step *s) {
    if (s->op == &op_embedding) return any_cut(p->params[s->weight[0]].type.shape.axis, 1);
    if (s->op != &op_linear) return false;
    const struct shape *w = &p->params[s->weight[0]].type.shape, *x = &p->slots[s->in[0]].type.shape;
    int summed = x->n_axes - 2;
    return any_cut(w->axis + w->n_axes - summed, summed);
}

static struct step region_step(const struct plan *plan, const struct op *op, int block, int in, int out) {
    return (struct step){.op = op, .n_in = 1, .n_out = 1, .in = {in}, .out = {out}, .block = block,
                         .mesh_axis = AXIS_TP, .parts = (int)plan->mesh.tp, .part = plan->place.rank.tp};
}

static int slot_like(struct program *p, int slot, const char *suffix) {
    char name[NAME_MAX_LEN];
    const char *dot = strchr(p->slots[slot].name, '.');
    snprintf(name, sizeof name, "%.28s.%s", dot ? dot + 1 : p->slots[slot].name, suffix);
    char block[NAME_MAX_LEN];
    snprintf(block, sizeof block, "%.*s", dot ? (int)(dot - p->slots[slot].name) : 0, p->slots[slot].name);
    int made = program_add_slot(p, block, name);
    p->slots[made].type = p->slots[slot].type;
    return made;
}

/* y = linear(x)  ->  y.part = linear(x); y = tp_exit(y.part) */
static void insert_exit(const struct plan *plan, struct program *p, int at) {
    int whole = p->steps[at].out[0], part = slot_like(p, whole, "part");
    p->steps[at].out[0] = part;
    struct step s =
        region_step(plan, tp_options(plan)->sp ? &op_sp_exit : &op_tp_exit, p->steps[at].block, part, whole);
    program_insert(p, at + 1, &s);
}

/* The slot that an earlier tp_enter of x (or of x's branch) made in this block; -1: none. */
static int entered_before(const struct program *p, int at, int x) {
    if (p->fixed_sums) return -1;                                    /* each enter reduces its own gradient */
    for (int i = 0, own = x; i < at; i++) {
        const struct step *s = &p->steps[i];
        if (s->block != p->steps[at].block) continue;                /* another block may be on another stage */
        if (s->op == &op_branch && s->in[0] == x) own = s->out[0];
        if ((s->op == &op_tp_enter || s->op == &op_sp_enter) && s->in[0] == own) return s->out[0];
    }
    return -1;
}

/* Is x also read by a step that enters no region? */
static bool is_read_between(const struct program *p, int at, int x) {
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        for (int k = 0; k < s->n_in; k++)
            if (i != at && s->in[k] == x && !makes_cut_axis(p, s)) return true;
    }
    return false;
}

/* tp_enter all-reduces its gradient in place. So if other steps read x, too (a residual whose norm comes later, or a
 * later block), insert a branch first. With fixed sums tp_enter needs none: it adds its reduced gradient to theirs. */
static int insert_branch(struct program *p, int at, int x) {
    bool passed_on = block_gives(&p->blocks[p->steps[at].block], x);
    if (p->fixed_sums || (!passed_on && !is_read_between(p, at, x))) return x;
    int own = slot_like(p, x, "own");
    struct step s = {.op = &op_branch, .n_in = 1, .n_out = 1, .in = {x}, .out = {own}, .block = p->steps[at].block,
                     .parts = 1};
    program_insert(p, at, &s);
    return own;
}

/* y = linear(x)  ->  x.in = tp_enter(x); y = linear(x.in)    If several products read x, they share one tp_enter. */
static void insert_enter(const struct plan *plan, struct program *p, int at) {
    int i = p->steps[at].op == &op_mla_keys, whole = p->steps[at].in[i], before = entered_before(p, at, whole);
    if (before >= 0) {
        p->steps[at].in[i] = before;
        return;
    }
    int n = p->n_steps;
    whole = insert_branch(p, at, whole);
    at += p->n_steps - n;
    int entered = slot_like(p, whole, "in");
    struct step s =
        region_step(plan, tp_options(plan)->sp ? &op_sp_enter : &op_tp_enter, p->steps[at].block, whole, entered);
    if (tp_options(plan)->sp) s.gather.whole = *shape_axis(&p->slots[whole].type.shape, 'T');
    p->slots[entered].replay = tp_options(plan)->sp; /* keep the shard; gather again for the weight gradient */
    p->steps[at].in[i] = entered;
    program_insert(p, at, &s);
}

static void divide(const struct plan *plan, struct step *s, const struct op *op) {
    s->op = op, s->mesh_axis = AXIS_TP;
    s->parts = (int)plan->mesh.tp, s->part = plan->place.rank.tp;
}

static void insert_regions(const struct plan *plan, struct program *p) {
    for (int i = 0, n; i < p->n_steps; i += 1 + p->n_steps - n) {    /* skip inserted steps */
        struct step *s = &p->steps[i];
        bool enter = makes_cut_axis(p, s), leave = sums_over_cut_axis(p, s);
        n = p->n_steps;
        if (s->op == &op_cross_entropy) divide(plan, s, &op_tp_cross_entropy);
        if (s->op == &op_linear_cross_entropy) divide(plan, s, &op_tp_linear_cross_entropy);
        if (s->op == &op_rmsnorm_heads) divide(plan, s, &op_tp_rmsnorm_heads);
        if (leave) insert_exit(plan, p, i);
        if (enter) insert_enter(plan, p, i);
    }
}

/* With sp, only steps between regions read the segments. So shard the segments as these steps shard tokens. */
static void shard_segments(const struct plan *plan, struct program *p) {
    if (!tp_options(plan)->sp || p->data[DATA_SEGMENTS] < 0) return;
    struct axis *t = &p->slots[p->data[DATA_SEGMENTS]].type.shape.axis[1];
    *t = axis_part(t, plan->mesh.tp, plan->place.rank.tp);
    t->cut |= 1u << AXIS_TP;
}

static enum status tp_rewrite(const struct plan *plan, struct program *p) {
    if (p->fixed_sums) tp_leaves_mark(p);
    shard_params(plan, p);
    insert_regions(plan, p);
    shard_segments(plan, p);
    return OK;
}

const struct technique technique_tp = {
    .name = "tp", .options = {OPTIONS, 1, sizeof(struct tp_options)}, .wanted = tp_wanted, .check = tp_check,
    .rewrite = tp_rewrite};
