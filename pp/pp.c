/* Pipeline parallelism.
 *
 * Idea: partition the model by depth. Stage i has a run of consecutive layers, receives activations from stage i-1 and
 * sends its own to stage i+1; gradients come back the other way. A single batch would leave all stages but one idle. So
 * it is split into microbatches that follow each other like cars on an assembly line.
 *
 * Formula: with p stages and m microbatches a step takes (m + p - 1)(F + B) instead of m (F + B): the bubble is (p-1)/m
 * of the useful time. Sent per microbatch and boundary: (B,T,C) activations forward, as many gradients backward. There
 * is no other traffic, which is why pp works well across nodes.
 *
 * Chunks: with `chunks` = v a stage has v runs of layers instead of one, and the model passes all stages v times. The
 * above then holds for p v *virtual stages*: number s is chunk s / p of stage s % p.
 *
 * Stored where: a stage has its own layers; the first also the embedding, the last also the final layernorm and the
 * head (for any v, the first virtual stage is on the first stage and the last on the last). The head's matrix is the
 * embedding's (tied), so both ends hold a copy. They start equal, because initial values depend on name and global
 * index only, and stay equal, because their gradients are all-reduced each step (AXIS_TIE, lib/run/combine.h). A param
 * that all layers of T5's encoder or decoder read is on half of the stages, or on all (AXIS_HALF, AXIS_PP).
 *
 * Sent when: in the order of the schedule (pp_schedule.c). A send copies into a ring of `send_depth` buffers, and does
 * not wait for the receiver.
 *
 * What breaks: the tied gradient not all-reduced, or counted twice in the norm; a stage boundary off by one.
 *
 * Source: Huang et al. 2019 (GPipe); Narayanan et al. 2021 (Megatron-LM), section 2.2. */
#include "pp/pp.h"

#include "lib/run/run.h"
#include "pp/pp_table.h"
#include <inttypes.h>
#include <stdlib.h>

#define AT(field) offsetof(struct pp_options, field)
static const struct option OPTIONS[] = {
    {"schedule", OPTION_CHOICE, "1f1b", 0, 0, PP_SCHEDULES, "",
     "pipeline schedule: the order of forwards and backwards", "parallelism", AT(schedule)},
    {"chunks", OPTION_INT, "1", 1, 1024, NULL, "",
     "model chunks per rank (virtual stages), for schedules that take them", "parallelism", AT(chunks)},
    {"pp-split", OPTION_TEXT, "", 0, 0, NULL, "layers",
     "layers of each virtual stage, as in 3,4,5, or by Megatron's notation, as in Et*3|t*4|t*5L; empty: even, the "
     "remainder to the first stages; auto: so that the slowest stage on the cluster is fastest",
     "parallelism", AT(split)},
    {"schedule-times", OPTION_TEXT, "", 0, 0, NULL, "",
     "zb-2p: times of a forward, its input and its weight gradients, and of a message, as in 2.1,2.0,1.1,0.1 (any "
     "unit; --trace measures them); a fifth number: the share of activations that weight gradients need. Empty: "
     "1,1,1,0,1",
     "parallelism", AT(times)},
    {"schedule-memory", OPTION_INT, "0", 0, PLAN_MAX_MICROBATCHES, NULL, "microbatches",
     "zb-2p: how many a rank keeps activations of; 0: 2 pp", "parallelism", AT(memory)},
    {"optim-sync", OPTION_CHOICE, "wait", 0, 0, "wait|validate", "",
     "wait: update when the gradient norm of all stages is known. validate: guess that it is below clip, begin the "
     "next step, and do both again where that was wrong: the same bits, and no bubble between steps",
     "parallelism", AT(optim_sync)},
};

static bool pp_wanted(const struct plan *plan) {
    const struct pp_options *o = pp_options(plan);
    return plan->mesh.pp > 1 || o->schedule != SCHEDULE_1F1B || o->chunks > 1 || o->split[0] || o->times[0] ||
           o->memory || o->optim_sync;
}

static enum status stages_of_layers(const struct plan *plan, int **out) {
    *out = malloc((size_t)plan->layers * sizeof **out);
    if (!*out) return FAIL(E_MEMORY, "no memory for %" PRId64 " layers", plan->layers);
    enum status status = pp_assign_layers(plan, *out);
    if (status == OK) return OK;
    free(*out);
    *out = NULL;
    return status;
}

/* The largest microbatch that divides the share and fills the pipeline: at least 2 pp microbatches, if the share
 * allows, and a number of them that the schedule accepts. */
static int64_t pp_micro_batch(const struct plan *plan, int64_t share) {
    const struct pp_schedule *row = pp_row(plan);
    struct pp_shape shape = pp_shape_of_plan(plan);
    if (plan->mesh.pp == 1) return share;
    for (int64_t n = row->table ? row->table->n_microbatches : 2 * plan->mesh.pp;
         n <= share && n <= PLAN_MAX_MICROBATCHES; n++) {
        shape.n_microbatches = (int)n;
        if (share % n == 0 && pp_schedule_legal(row, &shape) == OK) return share / n;
    }
    status_clear();
    return 1;
}

/* One fused op for head and loss computes the weight gradient within backward. Then the last stage cannot delay W, and
 * its backward is the longest. So schedules that split W use two ops. */
static void pp_prefer(struct plan *plan) {
    const struct pp_schedule *row = pp_row(plan);
    if (row->split_weight && plan->loss_chunk < 0) plan->loss_chunk = 0;
}

static const char *pp_asynchronous(const struct plan *plan) { return pp_row(plan)->endless ? "schedule 1f1b" : NULL; }

static enum status pp_check(const struct plan *plan) {
    int *stage_of;
    struct pp_shape shape = pp_shape_of_plan(plan);
    const struct pp_table *table;
    if (pp_options(plan)->schedule == SCHEDULE_FILE) TRY(pp_table_of(pp_options(plan)->file, &table));
    TRY(pp_check_times(plan));
    TRY(pp_schedule_legal(pp_row(plan), &shape));
    TRY(stages_of_layers(plan, &stage_of));
    free(stage_of);
    return pp_check_endless(plan);
}

/* ---- rewrite: keep this rank's blocks ---- */
/* Block -> virtual stage: blocks before the layers are on the first, blocks after them on the last. */
static void assign_blocks(const struct program *p, const int *stage_of, int last_stage, int *stage_of_block) {
    for (int b = 0, layer = 0; b < p->n_blocks; b++)
        stage_of_block[b] = p->blocks[b].is_layer ? stage_of[layer++] : layer == 0 ? 0 : last_stage;
}

/* The ranks that use a param: the first, the last, and their number. n_users 0: no rank uses it. */
struct users { int first, last, n_users; };
static struct users users_of(const bool *uses, int n) {
    struct users u = {.n_users = 0};
    for (int rank = 0; rank < n; rank++) {
        if (!uses[rank]) continue;
        if (!u.n_users++) u.first = rank;
        u.last = rank;
    }
    return u;
}

/* The axis whose group is exactly these ranks; AXIS_SELF: there is none. A tied table is on the pipeline's two ends.
 * With two directions a rank and its mirror image hold the same stages. T5's encoder layers share a param, and its
 * decoder layers another: each is on one half of the ranks or, with chunks, on all of them. */
static enum mesh_axis axis_of_users(struct users u, int pp, bool two_pipes) {
    bool pair = u.n_users == 2 && u.last == pp - 1 - u.first;
    if (pair && (two_pipes || u.first == 0)) return two_pipes ? AXIS_MIRROR : AXIS_TIE;
    if (u.n_users == pp) return AXIS_PP;
    bool half = 2 * u.n_users == pp && u.last - u.first + 1 == u.n_users && (u.first == 0 || u.last == pp - 1);
    return half ? AXIS_HALF : AXIS_SELF;
}

/* Marks the params that this rank shares with other ranks. uses: by param and rank. */
static enum status mark_shared(struct program *p, const bool *uses, const struct mesh_place *place, bool two_pipes) {
    int pp = place->n.pp;
    for (int i = 0; i < p->n_params; i++) {
        struct users u = users_of(uses + i * pp, pp);
        enum mesh_axis axis = axis_of_users(u, pp, two_pipes);
        if (u.n_users < 2) continue;
        if (axis == AXIS_SELF)
            return FAIL(E_CONFIG,
                        "%s is used on %d ranks from %d to %d of pp=%d; what stages share must be on the first and the "
                        "last, on one half of them, or on all; use pp 1, or another pp, pp-split or number of chunks",
                        p->params[i].name, u.n_users, u.first, u.last, pp);
        if (uses[i * pp + place->rank.pp]) p->params[i].shared = axis;
    }
    return OK;
}

/* The placement as seen from one rank. chunk_here returns the rank's chunk with a virtual stage (-1: none). If there
 * are two directions, it looks in both. It also marks in `uses` the ranks that read each param of the step. */
struct here { const struct pp_placement *place; struct pp_shape shape; int rank; };
static int chunk_here(const struct here *h, int virtual_stage, const struct step *s, bool *uses) {
    int chunk = -1;
    for (int pipe = 0; pipe < h->place->n_pipes; pipe++) {
        struct hop at = h->place->where(&h->shape, pipe, virtual_stage);
        for (int k = 0; s && k < s->n_weight; k++) uses[s->weight[k] * h->shape.n_stages + at.rank] = true;
        if (at.rank == h->rank) chunk = at.chunk;
    }
    return chunk;
}

static void keep_steps(const struct plan *plan, struct program *p, const int *stage_of_block, bool *uses) {
    const struct here here = {pp_row(plan)->place, pp_shape_of_plan(plan), plan->place.rank.pp};
    int kept = 0;
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        if (chunk_here(&here, stage_of_block[s->block], s, uses) >= 0) p->steps[kept++] = *s;
    }
    p->n_steps = kept;
    p->n_chunks = here.shape.n_chunks;
    for (int b = 0; b < p->n_blocks; b++) p->blocks[b].chunk = chunk_here(&here, stage_of_block[b], NULL, NULL);
}

static enum status pp_rewrite(const struct plan *plan, struct program *p) {
    int *stage_of = NULL, *stage_of_block = malloc((size_t)p->n_blocks * sizeof *stage_of_block);
    bool *uses = calloc((size_t)p->n_params * (size_t)plan->place.n.pp + 1, sizeof *uses);
    enum status status = stages_of_layers(plan, &stage_of);
    if (status == OK && (!stage_of_block || !uses)) status = FAIL(E_MEMORY, "no memory for %d blocks", p->n_blocks);
    if (status == OK) {
        assign_blocks(p, stage_of, stage_of[plan->layers - 1], stage_of_block);
        keep_steps(plan, p, stage_of_block, uses);
        status = mark_shared(p, uses, &plan->place, pp_row(plan)->place->n_pipes > 1);
    }
    free(stage_of);
    free(stage_of_block);
    free(uses);
    return status;
}

const struct technique technique_pp = {
    .name = "pp", .claims = CLAIM_SCHEDULE, .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS,
                                                        sizeof(struct pp_options)},
    .wanted = pp_wanted, .micro_batch = pp_micro_batch, .prefer = pp_prefer, .asynchronous = pp_asynchronous,
    .check = pp_check, .rewrite = pp_rewrite,
    .schedule = pp_schedule, .schedules = pp_schedules};
