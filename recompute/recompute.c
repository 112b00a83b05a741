/* Recomputation (activation checkpointing).
 *
 * Idea: backward reads the results of forward, so they stay in memory until then. Drop results that are large or cheap
 * to recompute, and run their ops once more just before backward needs them.
 *
 *   selective   if attention is materialised, its T x T outputs (per head), otherwise the outputs of layernorm and
 *               gelu: much memory for few flops
 *   full        everything inside a layer: only the layer's input is kept. One more forward without fc2: 2/9 more flops
 *   uniform:N   layers in groups of N: only the input of a group is kept. Backward of a group first replays the group
 *   block:N     the first N layers of each chunk as with full; nothing of the other layers
 *
 * In the code: a slot is marked `replay`. The lowering then drops its value after forward. Where a backward row needs
 * the value, the lowering emits replay rows (lib/program/lower.c: require, emit_forward), recursively down to kept
 * values, each row at most once. So ops whose results are not needed are not replayed: with `full` these include the
 * last product of a layer and its all-reduce over tp. A collective is replayed only if its result is needed. Dropout
 * draws the same mask because it draws by counter. The bill counts replay rows like all others.
 *
 * Stored where: less in the frames, a little more in scratch. Sent when: at the replay rows.
 * What breaks: a replay that draws another mask; a replay after the weights have changed (they change only between
 * steps).
 *
 * Source: Chen et al. 2016; Korthikanti et al. 2022, sections 4.2 and 5 (selective). */
#include "recompute/recompute.h"

#include "lib/ops/attention/attention.h"
#include "lib/ops/fp8.h"
#include "lib/ops/gelu.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/rmsnorm.h"
#include "lib/ops/swiglu.h"
#include <inttypes.h>

static const struct option OPTIONS[] = {
    {"recompute", OPTION_CHOICE, "none", 0, 0, "none|selective|full|uniform:N|block:N|auto", "",
     "activations that are dropped after forward and recomputed: selective the cheap and large, full all of a layer, "
     "uniform:N in groups of N layers, block:N the first N layers of a stage's chunk. auto: the fastest on the cluster "
     "that memory-limit has room for",
     "parallelism", offsetof(struct recompute_options, kind)},
};

static bool recompute_wanted(const struct plan *plan) { return recompute_options(plan)->kind != RECOMPUTE_NONE; }

static enum status recompute_check(const struct plan *plan) {
    const struct recompute_options *o = recompute_options(plan);
    if (o->kind == RECOMPUTE_AUTO)
        return FAIL(E_CONFIG, "nothing chooses recompute=auto here; give none, selective or full");
    if (o->kind < RECOMPUTE_UNIFORM || o->n <= plan->layers) return OK;
    const char *kind = o->kind == RECOMPUTE_UNIFORM ? "uniform" : "block";
    return FAIL(E_CONFIG, "recompute=%s:%d is more than layers=%" PRId64 "; use recompute %s:%" PRId64,
                kind, o->n, plan->layers, kind, plan->layers);
}

/* Steps that are cheap to compute again, and whose outputs are large. */
static bool is_cheap(const struct op *op) {
    return op == &op_layernorm || op == &op_rmsnorm || op == &op_gelu || op == &op_swiglu ||
           op == &op_geglu || op == &op_swiglu_clamped;
}

/* Mark the T x T outputs of materialised attention, or the outputs of norms and of the MLP's nonlinearity and the codes
 * that are cast from them. Statistics are small and are kept. */
static void mark_selective(const struct plan *plan, struct program *p, const struct step *s) {
    bool materialised = model_options(plan)->attention == ATTENTION_MATERIALISED;
    if (materialised && s->op == &op_attention_materialised)
        for (int k = 1; k < s->n_out; k++) p->slots[s->out[k]].replay = true;
    if (!materialised && is_cheap(s->op)) p->slots[s->out[0]].replay = true;
    bool casts = s->op == &op_cast_fp8 || s->op == &op_cast_blocks;
    for (int k = 0; casts && k < s->n_out; k++) p->slots[s->out[k]].replay |= p->slots[s->in[0]].replay;
}

/* Mark all outputs of the step, except decisions (kept_out) and, if not output_too, the block's output. */
static void mark_full(struct program *p, const struct step *s, bool output_too) {
    for (int k = 0; k < s->n_out; k++)
        if (!(s->op->kept_out >> k & 1) && (output_too || !block_gives(&p->blocks[s->block], s->out[k])))
            p->slots[s->out[k]].replay = true;
}

/* @return the number of layers before the block in its chunk. *last: the block is the chunk's last layer */
static int place_in_chunk(const struct program *p, int block, bool *last) {
    int place = 0, layers = 0;
    for (int b = 0; b < p->n_blocks; b++) {
        if (!p->blocks[b].is_layer || p->blocks[b].chunk != p->blocks[block].chunk) continue;
        if (b < block) place++;
        layers++;
    }
    *last = place == layers - 1;
    return place;
}

static void mark_step(const struct plan *plan, struct program *p, const struct step *s) {
    const struct recompute_options *o = recompute_options(plan);
    bool last;
    int place = place_in_chunk(p, s->block, &last);
    if (o->kind == RECOMPUTE_SELECTIVE) mark_selective(plan, p, s);
    if (o->kind == RECOMPUTE_FULL) mark_full(p, s, false);
    if (o->kind == RECOMPUTE_UNIFORM) mark_full(p, s, !last && (place + 1) % o->n != 0);
    if (o->kind == RECOMPUTE_BLOCK && place < o->n) mark_full(p, s, false);
}

static enum status recompute_rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->blocks[p->steps[i].block].is_layer) mark_step(plan, p, &p->steps[i]);
    return OK;
}

const struct technique technique_recompute = {
    .name = "recompute", .options = {OPTIONS, 1, sizeof(struct recompute_options)}, .wanted = recompute_wanted,
    .check = recompute_check, .rewrite = recompute_rewrite};
