/* Offsets of everything, fixed before the first step. */
#include "lib/program/memory.h"

#include "lib/base/integer.h"
#include "lib/device/disk.h"
#include <stdlib.h>

/* ---- params: the arrays that all params have ---- */
static void set(struct param *w, enum fixed_array at, bool there, struct param_array a) {
    w->arrays[at] = a;
    w->arrays[at].copies = !there ? 0 : a.copies ? a.copies : 1;
}

/* A table keeps the records of all microbatches of this step, and of the steps whose updates wait. They lie last in the
 * arena, because dp sends the other gradients as one stretch. */
static void set_grad(struct param *w, int n_microbatches) {
    if (w->update == UPDATE_ROWS)
        set(w, ARRAY_GRAD, true, (struct param_array){.name = "grad", .n = n_microbatches * (w->delay + 1) *
                           w->record_bytes, .dtype = UINT8, .role = ROLE_GRAD, .tier = w->grad_tier, .place = LAST});
    else
        set(w, ARRAY_GRAD, param_is_dense(w), (struct param_array){.name = "grad", .n = param_resident_n(w,
                           w->grad_residence), .dtype = w->grad_type.dtype, .role = ROLE_GRAD, .tier = w->grad_tier});
}

/* With --sums fixed, a weight's additional gradient has neither weight nor states. */
static void set_fixed(struct param *w, const struct optimizer *o, const struct schedule *s) {
    bool stored = param_is_stored(w), has_states = stored && param_is_dense(w);
    struct param_array state = {.n = param_state_n(w), .dtype = w->state_dtype, .role = ROLE_OPTIM,
                                .tier = w->state_tier};
    set_grad(w, s->n_microbatches);
    set(w, ARRAY_WEIGHT, stored, (struct param_array){.name = "weight", .saved_as = w->master ? NULL : "", .n =
                         param_resident_n(w, w->weight_residence), .dtype = w->type.dtype, .role = ROLE_PARAM,
                         .tier = w->weight_tier, .copies = schedule_versions(s)});
    for (int i = 0; i < OPTIMIZER_STATES; i++) {
        state.name = o->state[i].name, state.saved_as = o->state[i].saved_as;
        set(w, ARRAY_STATE + i, has_states && i < o->n_states, state);
    }
    state.name = "master", state.saved_as = "";
    set(w, ARRAY_MASTER, has_states && w->master, state);
}

/* ---- arrays: one after the other, in table order ---- */
/* On disk an array begins at a page boundary and ends at one. */
static void place(struct param_array *a, enum device_kind device, struct memory_plan *m) {
    const enum device_kind on[N_TIERS] = {device, DEVICE_CPU, DEVICE_DISK};
    int64_t *end = &m->bytes[a->tier][a->role], bytes = param_array_bytes(a);
    if (a->tier == TIER_DISK) bytes = round_up(bytes, DISK_PAGE);
    a->offset = arena_align_on(on[a->tier], *end);
    a->stride = arena_align_on(on[a->tier], bytes);
    *end = a->offset + (a->copies - 1) * a->stride + bytes;
}

void memory_plan_params(struct program *p, const struct schedule *s, struct memory_plan *m) {
    *m = (struct memory_plan){0};
    for (struct param *w = p->params; w < p->params + p->n_params; w++)
        if (w->present) set_fixed(w, w->optimizer ? w->optimizer : p->optimizer, s);
    for (int at = AMONG_PARAMS; at <= LAST; at++)
        for (struct param *w = p->params; w < p->params + p->n_params; w++)
            for (struct param_array *a = w->arrays; w->present && a < w->arrays + w->n_arrays; a++)
                if (a->copies && (int)a->place == at) place(a, p->device, m);
}

/* ---- frames: each lives from the action that first writes it to the action that last reads it ---- */
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

/* Does this action open (or close) frames of the class? A frame opens when its input arrives: at the receive, if there
 * is one. */
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
            if (s->n_frames) {                 /* microbatches take turns in n_frames: each lives all step long */
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

/* Pack the frames of one tier (n frames are of both tiers); offsets start at base. @errors E_MEMORY */
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

/* Place the streams of a ring's slot one after the other, each with the size of its largest message. */
static void place_streams(const int64_t largest[MAX_STREAMS], struct stage_ring *ring) {
    for (int i = 0; i < MAX_STREAMS; i++) {
        if (!largest[i]) continue;
        ring->stream[i] = arena_align(ring->bytes);
        ring->bytes = ring->stream[i] + largest[i];
    }
}

/* A sender leaves a copy and goes on. The ring has enough slots that no two ranks ever wait for each other. */
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

/* The comm arena: [ gathered params | one ring for each channel | the techniques' buffers ]. */
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
    const struct param_array *a;
    int64_t end = 0;
    for (int i = 0; i < p->n_params; i++)
        for (int k = 0; (a = param_saved(&p->params[i], k)); k++) {
            int64_t n = param_own_piece(&p->params[i]).n;
            if (n > 0) end = arena_align(end) + n * (int64_t)dtype_size(a->dtype);
        }
    return technique_save_bytes > 0 ? arena_align(end) + technique_save_bytes : end;
}

void memory_plan_fini(struct memory_plan *m) {
    free(m->frame_offset);
    m->frame_offset = NULL;
}
