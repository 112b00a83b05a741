#include "lib/base/integer.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_data.h"
#include "lib/checkpoint/checkpoint_load.h"
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_terms.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- checking the checkpoint and its model ---- */

enum status checkpoint_model(const char *step, struct checkpoint_model *out) {
    struct manifest m;
    enum status status = manifest_read(&m, step);
    if (status == OK) status = checkpoint_model_read(m.json, m.path, out);
    manifest_fini(&m);
    return status;
}

static enum status same_model(const struct manifest *m, const struct plan *p, enum checkpoint_part part) {
    struct checkpoint_model theirs;
    TRY(checkpoint_model_read(m->json, m->path, &theirs));
    TRY(checkpoint_model_compare(&theirs, p, m->path));
    if (part != CHECKPOINT_ALL && theirs.seq > p->seq && !p->arch->any_seq && comm_is_rank_0())
        log_info("%s: positions 0 to %" PRId64 " of %" PRId64 " are taken", m->folder, p->seq - 1, theirs.seq);
    if (part != CHECKPOINT_ALL || theirs.seq == p->seq) return OK;
    return FAIL(E_FORMAT, "%s was trained with seq=%" PRId64 ", and seq=%" PRId64 " is requested: samples are counted "
                "in that length; leave seq as it was, or begin a run with --init %s", m->path, theirs.seq, p->seq,
                m->folder);
}

enum status checkpoint_check_data(const struct run *r, const char *step, bool other_data) {
    struct manifest m;
    enum status status = manifest_read(&m, step);
    if (status == OK && !m.weights_only) status = checkpoint_data_compare(m.json, m.path, r, other_data);
    manifest_fini(&m);
    return status;
}

/* ---- tensors ---- */

/* An array of a param. If replicas differ, replicas from .. from + n - 1 have the array, and their mean is loaded. */
struct whose { const struct param *w; const char *array; int from, n; };

static enum status gather_of(const struct manifest *m, const struct whose *x, int replica, const struct piece *piece,
                             enum dtype dtype, void *to) {
    char name[CHECKPOINT_NAME_MAX];
    checkpoint_param_name(x->w, replica, name);
    return checkpoint_gather(m, name, x->array, piece, dtype, to);
}

/* The mean over replicas, summed in double and rounded once. */
static enum status gather_mean(const struct manifest *m, const struct whose *x, const struct piece *piece,
                               enum dtype dtype, void *to) {
    int64_t n = piece->n;
    double *sum = calloc((size_t)n + 1, sizeof *sum), *one = malloc(((size_t)n + 1) * sizeof *one);
    enum status status = sum && one ? OK : FAIL(E_MEMORY, "no memory for the mean of %s", x->w->name);
    for (int i = 0; i < x->n && status == OK; i++) {
        memset(one, 0, (size_t)n * sizeof *one);
        status = gather_of(m, x, x->from + i, piece, FP64, one);
        for (int64_t k = 0; k < n && status == OK; k++) sum[k] += one[k];
    }
    for (int64_t k = 0; k < n && status == OK; k++) sum[k] /= x->n;
    if (status == OK) dtype_convert(to, dtype, sum, FP64, n);
    free(sum);
    free(one);
    return status;
}

/* If the checkpoint's table of positions is longer, return the piece that has the first positions. */
static struct piece first_positions(const struct manifest *m, struct piece piece) {
    for (int i = 0; i < piece.box.n_axes; i++)
        if (piece.box.axis[i].tag == 'T') piece.box.axis[i].global = max64(piece.box.axis[i].global, m->seq);
    return piece;
}

/* Load a tensor to an address. room_n: elements of memory there, with padding. */
static enum status load_tensor(const struct manifest *m, struct whose x, struct piece piece, enum dtype dtype,
                               int64_t room_n, const struct device *device, void *to) {
    int64_t bytes = room_n * (int64_t)dtype_size(dtype);
    piece = first_positions(m, piece);
    void *at = calloc(1, (size_t)bytes + 1);                         /* zero, because padding is zero in training */
    enum status status = at ? OK : FAIL(E_MEMORY, "no memory to read %s", x.w->name);
    if (status == OK)
        status = x.n == 1 ? gather_of(m, &x, x.from, &piece, dtype, at) : gather_mean(m, &x, &piece, dtype, at);
    if (status == OK) status = device->upload(device, to, at, bytes);
    free(at);
    return status;
}

/* If the run has as many independent replicas as the checkpoint, each loads its own states; otherwise all load the
 * mean. An array that only such replicas have (outer momentum) starts at zero if the checkpoint lacks it. */
static enum status load_array(struct run *r, const struct manifest *m, const struct param *w,
                              const struct param_array *a) {
    const struct device *device = run_tier_device(r, a->tier);
    struct piece own = {w->type.shape, w->own_first, w->own_n};
    bool same = m->replicas && m->replicas == r->program.n_apart, state = array_is_state(w, a);
    struct whose x = {w, a->saved_as, same ? r->program.apart : 0, same || !m->replicas ? 1 : (int)m->replicas};
    if (!state && !m->replicas) return device->clear(device, a->at, param_array_bytes(a));
    if (!state) x.from = 0, x.n = 1;
    return load_tensor(m, x, own, a->dtype, a->n, device, a->at);
}

static enum status load_states(struct run *r, const struct manifest *m, const struct param *w) {
    for (const struct param_array *a = w->arrays; a < w->arrays + w->n_arrays; a++)
        if (a->copies && a->saved_as && *a->saved_as) TRY(load_array(r, m, w, a));
    return OK;
}

static struct piece resident_piece(const struct param *w) {
    bool own = w->weight_residence == RESIDENT_OWN;
    return (struct piece){w->type.shape, own ? w->own_first : 0, own ? w->own_n : type_n(&w->type)};
}

/* Load a table in parts of this number of elements, because a table with a cache may be larger than memory. */
static enum status load_table(const struct manifest *m, struct whose x, const struct device *device) {
    enum { BLOCK = 1 << 20 };
    const struct param *w = x.w;
    for (int64_t first = 0, n; first < w->own_n; first += n) {
        n = min64(BLOCK, w->own_n - first);
        struct piece piece = {w->type.shape, first, n};
        char *to = (char *)w->weight + first * (int64_t)dtype_size(w->type.dtype);
        TRY(load_tensor(m, x, piece, w->type.dtype, n, device, to));
    }
    return OK;
}

static enum status load_weight(struct run *r, const struct manifest *m, const struct param *w) {
    const struct device *weights = run_tier_device(r, w->weight_tier),
                        *states = run_tier_device(r, w->state_tier);
    struct piece own = {w->type.shape, w->own_first, w->own_n};
    const struct whose x = {w, "", 0, 1};
    if (param_array(w, HOT_ROWS)) return load_table(m, x, weights);
    if (w->master)
        TRY(load_tensor(m, x, own, w->state_dtype, param_state_n(w), states, param_master(w)));
    return load_tensor(m, x, resident_piece(w), w->type.dtype, param_resident_n(w, w->weight_residence), weights,
                       w->weight);
}

enum status checkpoint_load_params(struct run *r, const struct manifest *m, enum checkpoint_part part) {
    TRY(run_emit(r, EVENT_STATE_REPLACED));
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!param_is_stored(w) || w->cache || (w->update == UPDATE_STATE && part != CHECKPOINT_ALL)) continue;
        TRY(load_weight(r, m, w));
        if (part == CHECKPOINT_ALL && w->update == UPDATE_DENSE) TRY(load_states(r, m, w));
    }
    return OK;
}

/* ---- the run's progress ---- */

enum status checkpoint_load_progress(struct run *r, const struct manifest *m) {
    const json_t *techniques = json_object_get(m->json, "techniques");
    r->n_step = r->n_done = m->step;
    r->n_update = m->update;
    run_go_on_at_sample(r, m->samples);
    r->apart = false;
    TRY(r->device->clear(r->device, r->health, sizeof(double)));   /* the loaded state is finite */
    for (int i = 0; i < r->n_active; i++) {
        const json_t *kept = json_object_get(techniques, r->active[i]->name);
        if (kept && r->active[i]->load && r->self[i]) TRY(r->active[i]->load(r, r->self[i], kept));
    }
    return OK;
}

static enum status same_seed(const struct manifest *m, const struct plan *p) {
    if (m->seed == p->seed) return OK;
    return FAIL(E_FORMAT,
                "%s was trained with seed=%" PRId64 ", and seed=%" PRId64
                " is requested: data and dropout would not continue; leave seed as it was",
                m->path, m->seed, p->seed);
}

static enum status has_moments(const struct manifest *m) {
    if (!m->weights_only) return OK;
    return FAIL(E_FORMAT,
                "%s holds weights alone, and no moments, steps or samples to continue with; begin a run with --init %s",
                m->path, m->folder);
}

static enum status same_optimizer(const struct manifest *m, const struct plan *p) {
    const char *key, *mine = plan_optimizer(p)->name, *theirs = optimizer_adamw.name;
    json_t *value;
    json_object_foreach(m->json, key, value)
        if (optimizer_named(key)) theirs = key;
    if (!strcmp(mine, theirs)) return OK;
    return FAIL(E_FORMAT,
                "%s was trained by %s, and this run is by %s, which keeps other states; leave optimizer and momentum "
                "as they were, or begin a run with --init %s",
                m->path, theirs, mine, m->folder);
}

/* ---- the whole load ---- */

enum status checkpoint_load(struct run *r, const char *step, enum checkpoint_part part) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    struct manifest m;
    enum status status = manifest_read(&m, step);
    if (status == OK) status = same_model(&m, &r->plan, part);
    if (status == OK && part == CHECKPOINT_ALL) status = has_moments(&m);
    if (status == OK && part == CHECKPOINT_ALL) status = same_seed(&m, &r->plan);
    if (status == OK && part == CHECKPOINT_ALL) status = same_optimizer(&m, &r->plan);
    status = fail_agree(mesh, status);
    /* each rank checks a share */
    if (status == OK) status = fail_agree(mesh, manifest_check_shards(&m, group_rank(mesh), group_size(mesh)));
    if (status == OK) status = fail_agree(mesh, manifest_open_shards(&m));
    if (status == OK) {
        status = checkpoint_load_params(r, &m, part);
        if (status == OK && part == CHECKPOINT_ALL) status = checkpoint_load_progress(r, &m);
        status = fail_agree(mesh, status);
    }
    if (status == OK && part == CHECKPOINT_ALL) status = fail_agree(mesh, checkpoint_load_terms(r, &m));
    manifest_fini(&m);
    if (status == OK) checkpoint_carry_from(step);
    return status;
}
