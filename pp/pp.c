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
 * index only, and stay equal, because their gradients are all-reduced each step (AXIS_TIE, lib/run/combine.h).
 *
 * Sent when: in the order of the schedule (pp_schedule.c). A send leaves a copy in a ring of `send_depth` buffers and
 * goes on.
 *
 * What breaks: the tied gradient not all-reduced, or counted twice in the norm; a stage boundary off by one.
 *
 * Source: Huang et al. 2019 (GPipe); Narayanan et al. 2021 (Megatron-LM), section 2.2. */
#include "pp/pp.h"

#include "lib/run/run.h"
#include "pp/pp_schedule.h"
#include <inttypes.h>
#include <stdlib.h>

#define AT(field) offsetof(struct pp_options, field)
static const struct option OPTIONS[] = {
    {"schedule", OPTION_CHOICE, "1f1b", 0, 0, PP_SCHEDULES, "",
     "pipeline schedule: the order of forwards and backwards", "parallelism", AT(schedule)},
    {"chunks", OPTION_INT, "1", 1, 1024, NULL, "", "interleaved: model chunks per rank (virtual stages)", "parallelism",
     AT(chunks)},
    {"pp-split", OPTION_TEXT, "", 0, 0, NULL, "layers",
     "layers of each stage, as in 3,4,5; empty: even, the remainder to the first stages", "parallelism", AT(split)},
};

static bool pp_wanted(const struct plan *plan) {
    const struct pp_options *o = pp_options(plan);
    return plan->mesh.pp > 1 || o->schedule != SCHEDULE_1F1B || o->chunks > 1 || o->split[0];
}

static struct pp_shape shape_of(const struct plan *plan) {
    return (struct pp_shape){(int)plan->mesh.pp, (int)pp_options(plan)->chunks, plan->n_microbatches};
}

/* ---- which layers on which (virtual) stage ---- */
static int64_t n_virtual(const struct plan *plan) { return plan->mesh.pp * pp_options(plan)->chunks; }

/* "pp=2 stages", or "pp=2 x chunks=4 = 8 virtual stages". Static storage. */
static const char *stages_text(const struct plan *plan) {
    static char text[128];
    int64_t pp = plan->mesh.pp, chunks = pp_options(plan)->chunks;
    if (chunks == 1) snprintf(text, sizeof text, "pp=%" PRId64 " stages", pp);
    else
        snprintf(text, sizeof text, "pp=%" PRId64 " x chunks=%" PRId64 " = %" PRId64 " virtual stages", pp, chunks,
                 n_virtual(plan));
    return text;
}

static enum status assign_evenly(const struct plan *plan, int *stage_of) {
    int64_t each = plan->layers / n_virtual(plan), more = plan->layers % n_virtual(plan);
    for (int64_t stage = 0, layer = 0; stage < n_virtual(plan); stage++)
        for (int64_t i = 0; i < each + (stage < more); i++) stage_of[layer++] = (int)stage;
    return OK;
}

static enum status refuse_split(const struct plan *plan) {
    return FAIL(E_CONFIG,
                "pp-split=%s does not split layers=%" PRId64 " over %s; give %" PRId64 " positive counts, separated by "
                "commas, that sum to %" PRId64,
                pp_options(plan)->split, plan->layers, stages_text(plan), n_virtual(plan), plan->layers);
}

static enum status assign_as_told(const struct plan *plan, int *stage_of) {
    int64_t layer = 0, stage = 0;
    const char *at = pp_options(plan)->split;
    for (bool more = true; more; stage++) {
        char *end;
        long n = strtol(at, &end, 10);
        more = *end == ',';
        if (end == at || (*end && !more) || n < 1 || n > plan->layers - layer || stage >= n_virtual(plan))
            return refuse_split(plan);
        for (long i = 0; i < n; i++) stage_of[layer++] = (int)stage;
        at = end + 1;
    }
    return layer == plan->layers && stage == n_virtual(plan) ? OK : refuse_split(plan);
}

static enum status refuse_too_many(const struct plan *plan) {
    bool fewer_chunks = plan->mesh.pp <= plan->layers && pp_options(plan)->chunks > 1;
    return FAIL(E_CONFIG, "%s are more than layers=%" PRId64 "; use %s %" PRId64 " or less", stages_text(plan),
                plan->layers, fewer_chunks ? "chunks" : "pp",
                fewer_chunks ? plan->layers / plan->mesh.pp : plan->layers);
}

enum status pp_assign_layers(const struct plan *plan, int *stage_of) {
    if (n_virtual(plan) > plan->layers) return refuse_too_many(plan);
    return pp_options(plan)->split[0] ? assign_as_told(plan, stage_of) : assign_evenly(plan, stage_of);
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
    const struct pp_schedule *row = pp_schedule_at(pp_options(plan)->schedule);
    struct pp_shape shape = shape_of(plan);
    if (plan->mesh.pp == 1) return share;
    for (int64_t n = 2 * plan->mesh.pp; n <= share && n <= PLAN_MAX_MICROBATCHES; n++) {
        shape.n_microbatches = (int)n;
        if (share % n == 0 && (!row->legal || row->legal(&shape) == OK)) return share / n;
    }
    status_clear();
    return 1;
}

static enum status pp_check(const struct plan *plan) {
    int *stage_of;
    struct pp_shape shape = shape_of(plan);
    TRY(pp_schedule_legal(pp_schedule_at(pp_options(plan)->schedule), &shape));
    TRY(stages_of_layers(plan, &stage_of));
    free(stage_of);
    return OK;
}

/* ---- rewrite: keep this stage's blocks ---- */
/* Block -> virtual stage: blocks before the layers are on the first, blocks after them on the last. */
static void assign_blocks(const struct plan *plan, const struct program *p, const int *stage_of, int *stage_of_block) {
    for (int b = 0, layer = 0; b < p->n_blocks; b++)
        stage_of_block[b] = p->blocks[b].is_layer ? stage_of[layer++] : layer == 0 ? 0 : (int)n_virtual(plan) - 1;
}

struct users { int first_stage, last_stage; };   /* of a param; first_stage -1: none */

static void note_user(struct users *u, int stage) {
    if (u->first_stage < 0 || stage < u->first_stage) u->first_stage = stage;
    if (stage > u->last_stage) u->last_stage = stage;
}

/* A param that two stages use is tied. Only first and last stage share (AXIS_TIE). */
static void mark_tied(struct program *p, const struct users *users, int here) {
    for (int i = 0; i < p->n_params; i++) {
        const struct users *u = &users[i];
        if (u->first_stage == u->last_stage || (here != u->first_stage && here != u->last_stage)) continue;
        p->params[i].tied = true;
    }
}

static void keep_steps(const struct plan *plan, struct program *p, const int *stage_of_block, struct users *users) {
    int kept = 0, n_stages = (int)plan->mesh.pp, here = plan->place.rank.pp;
    for (int i = 0; i < p->n_params; i++) users[i] = (struct users){-1, -1};
    for (int i = 0; i < p->n_steps; i++) {
        const struct step *s = &p->steps[i];
        int stage = stage_of_block[s->block] % n_stages;
        for (int k = 0; k < s->n_weight; k++) note_user(&users[s->weight[k]], stage);
        if (stage == here) p->steps[kept++] = p->steps[i];
    }
    p->n_steps = kept;
    p->n_chunks = (int)pp_options(plan)->chunks;
    for (int b = 0; b < p->n_blocks; b++)
        p->blocks[b].chunk = stage_of_block[b] % n_stages == here ? stage_of_block[b] / n_stages : -1;
}

static enum status pp_rewrite(const struct plan *plan, struct program *p) {
    int *stage_of = NULL, *stage_of_block = malloc((size_t)p->n_blocks * sizeof *stage_of_block);
    struct users *users = malloc((size_t)p->n_params * sizeof *users);
    enum status status = stages_of_layers(plan, &stage_of);
    if (status == OK && (!stage_of_block || !users)) status = FAIL(E_MEMORY, "no memory for %d blocks", p->n_blocks);
    if (status == OK) {
        assign_blocks(plan, p, stage_of, stage_of_block);
        keep_steps(plan, p, stage_of_block, users);
        mark_tied(p, users, plan->place.rank.pp);
    }
    free(stage_of);
    free(stage_of_block);
    free(users);
    return status;
}

static enum status pp_schedule(const struct plan *plan, struct schedule *out) {
    const struct pp_schedule *row = pp_schedule_at(pp_options(plan)->schedule);
    struct pp_shape shape = shape_of(plan);
    pp_schedule_make(row, &shape, plan->place.rank.pp, out);
    if (shape.n_stages == 1) return OK;
    out->send_depth = pp_send_depth(row, &shape);
    return OK;
}

const struct technique technique_pp = {
    .name = "pp", .claims = CLAIM_SCHEDULE, .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS,
                                                        sizeof(struct pp_options)},
    .wanted = pp_wanted, .micro_batch = pp_micro_batch, .check = pp_check, .rewrite = pp_rewrite,
    .schedule = pp_schedule};
