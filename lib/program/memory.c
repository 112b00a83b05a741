/* Offsets of everything, fixed before the first step. */
#include "lib/program/memory.h"

#include "lib/base/integer.h"
#include "lib/device/disk.h"
#include <stdlib.h>

/* ---- params: one place each, in table order ---- */
struct bump { int64_t *end; enum device_kind on; };
/* In a file an array begins at a page and ends with one. */
static int64_t take(struct bump b, int64_t n, enum dtype dtype) {
    int64_t offset = arena_align_on(b.on, *b.end), bytes = n * (int64_t)dtype_size(dtype);
    *b.end = offset + (b.on == DEVICE_DISK ? round_up(bytes, DISK_PAGE) : bytes);
    return offset;
}

static struct bump end_of(struct memory_plan *m, enum role role, enum tier tier, enum device_kind device) {
    const enum device_kind on[N_TIERS] = {device, DEVICE_CPU, DEVICE_DISK};
    return (struct bump){&m->bytes[tier][role], on[tier]};
}

/* What an update may change, as it was before: beside the original, on the device or in host memory. */
static void plan_shadow(struct param *w, enum device_kind device, struct memory_plan *m) {
    struct bump weights = end_of(m, ROLE_OPTIM, w->weight_tier, device);
    struct bump states = end_of(m, ROLE_OPTIM, w->state_tier, device);
    w->shadow_offset[SHADOW_WEIGHT] = take(weights, w->own_n, w->type.dtype);
    for (enum shadow a = SHADOW_MOMENT1; a < (w->master ? N_SHADOWS : SHADOW_MASTER); a++)
        w->shadow_offset[a] = take(states, param_state_n(w), w->state_dtype);
}

/* One more gradient of another param: no weight, no states. */
static void plan_gradient(struct param *w, enum device_kind device, struct memory_plan *m) {
    if (!param_is_dense(w)) return;
    struct bump grads = end_of(m, ROLE_GRAD, w->grad_tier, device);
    w->grad_offset = take(grads, param_resident_n(w, w->grad_residence), w->grad_type.dtype);
}

static void plan_param(struct param *w, int n_versions, int n_outer, enum device_kind device, struct memory_plan *m) {
    struct bump weights = end_of(m, ROLE_PARAM, w->weight_tier, device);
    plan_gradient(w, device, m);
    if (w->gradient_of) return;
    struct bump states = end_of(m, ROLE_OPTIM, w->state_tier, device);
    w->weight_offset = take(weights, param_resident_n(w, w->weight_residence), w->type.dtype);
    for (int i = 1; i < n_versions; i++) {
        int64_t next = take(weights, param_resident_n(w, w->weight_residence), w->type.dtype);
        if (i == 1) w->version_bytes = next - w->weight_offset;
    }
    if (w->hot_rows) w->hot_offset = take(end_of(m, ROLE_PARAM, TIER_DEVICE, device), param_hot_bytes(w), UINT8);
    if (w->second_n) w->second_offset = take(end_of(m, ROLE_PARAM, TIER_DEVICE, device), w->second_n, w->type.dtype);
    if (!param_is_dense(w)) return;
    w->moment1_offset = take(states, param_state_n(w), w->state_dtype);
    w->moment2_offset = take(states, param_state_n(w), w->state_dtype);
    if (w->master) w->master_offset = take(states, param_state_n(w), w->state_dtype);
    for (int i = 0; i < n_outer; i++) w->outer_offset[i] = take(states, param_state_n(w), w->state_dtype);
}

/* Sums of a gradient that wait for others (sums.h). */
static void plan_waiting(struct param *w, enum device_kind device, struct memory_plan *m) {
    w->waiting_offset = take(end_of(m, ROLE_GRAD, w->grad_tier, device), w->n_waiting * param_waiting_n(w), FP32);
}

/* Records of tables, of every microbatch of the steps whose updates wait, and of this one. */
static void plan_records(struct param *w, int n_microbatches, enum device_kind device, struct memory_plan *m) {
    w->n_records = n_microbatches * (w->delay + 1);
    w->grad_offset = take(end_of(m, ROLE_GRAD, w->grad_tier, device), param_grad_bytes(w), UINT8);
}

void memory_plan_params(struct program *p, const struct schedule *s, struct memory_plan *m) {
    *m = (struct memory_plan){0};
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].present) plan_param(&p->params[i], schedule_versions(s), p->n_apart ? 2 : 0, p->device, m);
    for (int i = 0; i < p->n_params; i++)
        if (param_is_stored(&p->params[i]) && s->validates) plan_shadow(&p->params[i], p->device, m);
    for (int i = 0; i < p->n_params; i++)                            /* last: dp sends gradients as they lie */
        if (p->params[i].present && p->params[i].n_waiting) plan_waiting(&p->params[i], p->device, m);
    for (int i = 0; i < p->n_params; i++)
        if (p->params[i].present && p->params[i].update == UPDATE_ROWS)
            plan_records(&p->params[i], s->n_microbatches, p->device, m);
}

/* ---- frames: from the action that first writes one to the action that last reads it ---- */
static size_t frame_index(const struct memory_plan *m, enum frame_class c, int chunk, int microbatch) {
    return ((size_t)c * (size_t)m->n_chunks + (size_t)chunk) * (size_t)m->n_microbatches + (size_t)microbatch;
}

int64_t memory_frame(const struct memory_plan *m, enum frame_class c, int chunk, int microbatch) {
    return m->frame_offset[frame_index(m, c, chunk, microbatch)];
}

int memory_first_microbatch(const struct memory_plan *m, int chunk) {
    for (int i = 0; i < m->n_microbatches; i++)
        for (enum frame_class c = 0; c < N_FRAMES; c++)
            if (memory_frame(m, c, chunk, i) >= 0) return i;
    return 0;
}

/* Does this action open (or close) frames of the class? A frame opens when its input lands, so at a receive if there is
 * one. */
static bool opens(enum frame_class c, enum action_kind k) {
    return c == FRAME_BW ? k == RECV_B || k == ACTION_B : k == RECV_F || k == ACTION_F;
}
static bool closes(enum frame_class c, enum action_kind k) {
    return c == FRAME_FB || c == PARKED_FB ? k == ACTION_B : k == ACTION_W;
}

static void frame_intervals(const struct chunk *chunks, const struct schedule *s, const struct memory_plan *m,
                            struct interval *x) {
    for (int i = 0; i < N_FRAMES * m->n_chunks * m->n_microbatches; i++) x[i] = (struct interval){.from = -1, .id = i};
    for (int t = 0; t < s->n; t++) {
        const struct action *a = &s->actions[t];
        for (enum frame_class c = 0; c < N_FRAMES; c++) {
            struct interval *frame = &x[frame_index(m, c, a->chunk, a->microbatch % m->n_microbatches)];
            frame->bytes = chunks[a->chunk].frame_bytes[c];
            if (s->n_frames) {                                       /* taken in turns, without an end */
                frame->from = 0, frame->to = s->n;
                continue;
            }
            if (opens(c, a->kind) && frame->from < 0) frame->from = t;
            if (closes(c, a->kind)) frame->to = t;
        }
    }
}

static bool is_parked(const struct memory_plan *m, int frame) {
    return frame / (m->n_chunks * m->n_microbatches) >= PARKED_FB;
}

/* The frames of one tier, of all n, from base on. @errors E_MEMORY */
static enum status pack_frames(const struct interval *all, int n, bool parked, enum device_kind on, int64_t base,
                               struct memory_plan *m, struct packing *out) {
    struct interval *x = malloc(((size_t)n + 1) * sizeof *x);
    int used = 0;
    if (!x) return FAIL(E_MEMORY, "no memory for the plan of %d frames", n);
    for (int i = 0; i < n; i++)
        if (all[i].bytes && is_parked(m, i) == parked) x[used++] = all[i];
    enum status status = interval_pack(x, used, on, out);
    for (int i = 0; i < used; i++) m->frame_offset[x[i].id] = base + x[i].offset;
    free(x);
    return status;
}

static enum status plan_frames(const struct chunk *chunks, const struct schedule *s, enum device_kind on,
                               struct memory_plan *m) {
    int n = N_FRAMES * m->n_chunks * m->n_microbatches;
    struct interval *x = malloc((size_t)n * sizeof *x);
    struct packing packing = {0};
    m->frame_offset = malloc((size_t)n * sizeof *m->frame_offset);
    enum status status = x && m->frame_offset ? OK : FAIL(E_MEMORY, "no memory for the plan of %d frames", n);
    int64_t base = arena_align_on(on, m->scratch_bytes[ROLE_ACT]);
    if (status == OK) frame_intervals(chunks, s, m, x);
    for (int i = 0; i < n && status == OK; i++) m->frame_offset[i] = -1;
    if (status == OK) status = pack_frames(x, n, true, on, 0, m, &packing);
    m->bytes[TIER_HOST][ROLE_ACT] = packing.extent;
    if (status == OK) status = pack_frames(x, n, false, on, base, m, &packing);
    m->frames_floor = packing.floor;
    m->bytes[TIER_DEVICE][ROLE_ACT] = packing.extent ? base + packing.extent : m->scratch_bytes[ROLE_ACT];
    free(x);
    return status;
}

/* ---- scratch: the same bytes serve every action, one after the other ---- */
static void plan_scratch(const struct chunk *chunks, struct memory_plan *m) {
    for (int k = 0; k < m->n_chunks; k++)
        for (enum tape_kind t = 0; t < N_TAPES; t++)
            for (enum role r = 0; r < N_ROLES; r++)
                if (chunks[k].scratch_bytes[t][r] > m->scratch_bytes[r])
                    m->scratch_bytes[r] = chunks[k].scratch_bytes[t][r];
}

/* A slot's places: the largest of each stream, one behind the other. */
static void place_streams(const int64_t largest[MAX_STREAMS], struct stage_ring *ring) {
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (!largest[i]) continue;
        ring->stream[i] = arena_align(ring->bytes);
        ring->bytes = ring->stream[i] + largest[i];
    }
}

/* A sender leaves a copy and goes on; enough slots that no rank ever waits for a peer that waits for it. */
static void plan_ring(const struct chunk *chunks, const struct schedule *s, int channel, enum device_kind on,
                      struct stage_ring *ring, int64_t *end) {
    int n_sends = 0;
    int64_t largest[MAX_STREAMS] = {0};
    for (int t = 0; t < s->n; t++) {
        const struct action *a = &s->actions[t];
        if (a->kind != SEND_F && a->kind != SEND_B) continue;
        if (schedule_channel(s, a) != channel) continue;
        const struct chunk *k = &chunks[a->chunk];
        for (int i = 0, v; i < MAX_STREAMS; i++)
            if ((v = chunk_moves(k, a->kind)[i]) >= 0) largest[i] = max64(largest[i], k->values[v].bytes);
        n_sends++;
    }
    place_streams(largest, ring);
    ring->slots = n_sends < s->send_depth ? n_sends : s->send_depth;
    ring->offset = arena_align_on(on, *end);
    if (ring->slots) *end = ring->offset + (ring->slots - 1) * arena_align(ring->bytes) + ring->bytes;
}

/* comm: [ gathered params | a ring a channel | what techniques asked for ] */
static void plan_comm(const struct chunk *chunks, const struct schedule *s, enum device_kind on,
                      int64_t technique_bytes, struct memory_plan *m) {
    int64_t end = m->scratch_bytes[ROLE_COMM];
    for (int c = 0; c < N_CHANNELS; c++) plan_ring(chunks, s, c, on, &m->ring[c], &end);
    m->technique_offset = arena_align_on(on, end);
    m->bytes[TIER_DEVICE][ROLE_COMM] = technique_bytes ? m->technique_offset + technique_bytes : end;
}

enum status memory_plan_rest(const struct program *p, const struct chunk *chunks, const struct schedule *s,
                             int64_t technique_comm_bytes, int64_t run_work_bytes, struct memory_plan *out) {
    out->n_chunks = p->n_chunks;
    out->n_microbatches = schedule_frames(s);
    plan_scratch(chunks, out);
    TRY(plan_frames(chunks, s, p->device, out));
    plan_comm(chunks, s, p->device, technique_comm_bytes, out);
    int64_t scratch = out->scratch_bytes[ROLE_WORK];
    out->run_bytes = run_work_bytes;
    out->scratch_offset[ROLE_WORK] = arena_align_on(p->device, run_work_bytes);
    out->bytes[TIER_DEVICE][ROLE_WORK] = scratch ? out->scratch_offset[ROLE_WORK] + scratch : run_work_bytes;
    return OK;
}

int64_t memory_save_bytes(const struct program *p, int64_t technique_save_bytes) {
    int64_t end = 0;
    for (int i = 0; i < p->n_params; i++)
        for (enum state_array a = 0; a < N_STATE_ARRAYS; a++) {
            bool saved = !p->params[i].gradient_of && param_is_saved(p, &p->params[i], a);
            int64_t n = saved ? param_own_piece(&p->params[i]).n : 0;
            if (n > 0) end = arena_align(end) + n * (int64_t)dtype_size(param_saved_dtype(&p->params[i], a));
        }
    return technique_save_bytes > 0 ? arena_align(end) + technique_save_bytes : end;
}

void memory_plan_fini(struct memory_plan *m) {
    free(m->frame_offset);
    m->frame_offset = NULL;
}
