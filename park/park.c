/* Parking activations in host memory.
 *
 * Idea: activations wait for backward, longest in the first layers, whose backward comes last. Meanwhile they need not
 * be in device memory. So copy them to host memory after their last use in forward, and back before their first use in
 * backward. Copies overlap with computation, a block ahead.
 *
 *   attention   attention's input and output, qkv and y: a fourth of a layer
 *   all         everything of a layer that backward reads
 *   block:N     the same, of the first N layers of a stage's chunk
 *
 * Formula: bytes over the bus in a step = 2 x parked bytes of a microbatch x microbatches. Computation hides them if
 *   parked bytes of a layer / bandwidth <= time of a layer's forward
 *
 * In the code: a slot is marked `park`. The lowering gives it three values, one of them in host memory, and rows PARK,
 * UNPARK and COPIED between them (lib/program/lower_park.c). Frames of host memory are packed on the same time line as
 * frames of device memory. A slot is kept, replayed or parked: slots that recompute marks are replayed, and slots that
 * recompute keeps (the input of a layer or a group) may be parked. Statistics are small and stay on the device. A copy
 * has the same bits, so no number changes.
 *
 * Stored where: on the device two blocks' values at a time, in host memory a frame per microbatch in flight. Ranks send
 * nothing.
 * What breaks: device memory that is reused while it is being copied; a row that reads a value before its copy is back;
 * a microbatch that writes the host memory of another.
 *
 * Source: Rajbhandari et al. 2021, "ZeRO-Infinity", section 5.1.1; Ren et al. 2021 for traffic over the bus. */
#include "park/park.h"

#include <inttypes.h>

static const struct option OPTIONS[] = {
    {"park", OPTION_CHOICE, "none", 0, 0, "none|attention|all|block:N", "",
     "activations that wait in host memory between forward and backward: attention what attention reads and makes, all "
     "of every layer, block:N of the first N layers of a stage's chunk",
     "parallelism", offsetof(struct park_options, kind)},
};

static bool park_wanted(const struct plan *plan) { return park_options(plan)->kind != PARK_NONE; }

static enum status park_check(const struct plan *plan) {
    const struct park_options *o = park_options(plan);
    if (o->kind != PARK_BLOCK || o->n <= plan->layers) return OK;
    return FAIL(E_CONFIG, "park=block:%d is more than layers=%" PRId64 "; use park block:%" PRId64, o->n, plan->layers,
                plan->layers);
}

static bool is_data(const struct program *p, int slot) {
    for (int d = 0; d < N_DATA; d++)
        if (p->data[d] == slot) return true;
    return false;
}

static void mark(struct program *p, int slot) {
    struct slot *s = &p->slots[slot];
    if (!is_data(p, slot) && slot != p->features && !s->replay) s->park = true;
}

/* Mark the step's inputs and outputs, except statistics and the block's output, which its readers mark. */
static void mark_step(struct program *p, const struct step *s) {
    for (int k = 0; k < s->n_in; k++) mark(p, s->in[k]);
    for (int k = 0; k < s->n_out; k++)
        if (!(s->op->statistic_out >> k & 1) && !block_gives(&p->blocks[s->block], s->out[k])) mark(p, s->out[k]);
}

/* Unmark statistics that other steps read and have marked. */
static void keep_statistics(struct program *p, const struct step *s) {
    for (int k = 0; k < s->n_out; k++)
        if (s->op->statistic_out >> k & 1) p->slots[s->out[k]].park = false;
}

/* The number of layers before the block in its chunk. */
static int place_in_chunk(const struct program *p, int block) {
    int place = 0;
    for (int b = 0; b < block; b++) place += p->blocks[b].is_layer && p->blocks[b].chunk == p->blocks[block].chunk;
    return place;
}

static bool is_chosen(const struct park_options *o, const struct program *p, const struct step *s) {
    if (!p->blocks[s->block].is_layer) return false;
    if (o->kind == PARK_ATTENTION) return s->op->rule == RULE_ATTENTION;
    return o->kind == PARK_ALL || place_in_chunk(p, s->block) < o->n;
}

static enum status park_rewrite(const struct plan *plan, struct program *p) {
    for (int i = 0; i < p->n_steps; i++)
        if (is_chosen(park_options(plan), p, &p->steps[i])) mark_step(p, &p->steps[i]);
    for (int i = 0; i < p->n_steps; i++) keep_statistics(p, &p->steps[i]);
    return OK;
}

const struct technique technique_park = {
    .name = "park", .options = {OPTIONS, 1, sizeof(struct park_options)}, .wanted = park_wanted, .check = park_check,
    .rewrite = park_rewrite};
