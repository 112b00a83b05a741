#include "lib/comm/comm.h"
#include "lib/run/checkpoint_manifest.h"
#include "lib/run/checkpoint_piece.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 20 };

/* ---- is it whole, and of this model? ---- */

static enum status size_of(const struct manifest *m, const char *name, int64_t *out) {
    const json_t *x = json_object_get(json_object_get(m->json, "model"), name);
    if (!json_is_integer(x)) return FAIL(E_FORMAT, "%s does not say the model's %s", m->path, name);
    *out = json_integer_value(x);
    return OK;
}

static enum status same_model(const struct manifest *m, const struct plan *p) {
    const struct { const char *name; int64_t ours; } sizes[] = {
        {"layers", p->layers}, {"hidden", p->hidden}, {"heads", p->heads}, {"seq", p->seq}, {"vocab", p->vocab}};
    for (int i = 0; i < 5; i++) {
        int64_t theirs = 0;
        TRY(size_of(m, sizes[i].name, &theirs));
        if (theirs != sizes[i].ours)
            return FAIL(E_FORMAT, "%s is of another model: %s is %" PRId64 " there and %" PRId64 " here; give the options that it was saved with",
                        m->path, sizes[i].name, theirs, sizes[i].ours);
    }
    return OK;
}

enum status checkpoint_model(const char *step, struct checkpoint_model *out) {
    struct manifest m;
    const struct { const char *name; int64_t *to; } sizes[] = {
        {"layers", &out->layers}, {"hidden", &out->hidden}, {"heads", &out->heads}, {"seq", &out->seq}, {"vocab", &out->vocab}};
    enum status status = manifest_read(&m, step);
    for (int i = 0; i < 5 && status == OK; i++) status = size_of(&m, sizes[i].name, sizes[i].to);
    manifest_fini(&m);
    return status;
}

/* Each rank looks at its share. */
static enum status check_shards(const struct manifest *m, const struct group *mesh) {
    void *buffer = malloc(MANIFEST_CHECK_BYTES);
    enum status status = buffer ? OK : FAIL(E_MEMORY, "no memory to check %s", m->path);
    for (int i = group_rank(mesh); i < m->n && status == OK; i += group_size(mesh)) status = manifest_check_shard(m, i, buffer);
    free(buffer);
    return status;
}

/* ---- tensors ---- */

/* A tensor that is being put together in host memory, out of the files that have parts of it. */
struct target {
    struct piece piece;
    enum dtype dtype;
    char *at;
    int64_t filled;
    const struct safetensors *file;
    const struct safetensors_entry *entry;
    void *buffer;
};

static enum status take(void *self, int64_t to_at, int64_t from_at, int64_t n) {
    struct target *t = self;
    int64_t size = (int64_t)dtype_size(t->entry->dtype), most = READ_BYTES / size;
    for (int64_t done = 0; done < n; done += most) {
        int64_t part = n - done < most ? n - done : most;
        TRY(safetensors_read(t->file, t->entry, (from_at + done) * size, part * size, t->buffer));
        dtype_convert(t->at + (to_at + done) * (int64_t)dtype_size(t->dtype), t->dtype, t->buffer, t->entry->dtype, part);
    }
    t->filled += n;
    return OK;
}

/* The number of elements follows from the shape, and must be that of the piece: else reading would go beyond. */
static enum status check_entry(const struct shard_file *s, const struct safetensors_entry *e, const struct piece *piece, const char *name) {
    if (!e) return FAIL(E_FORMAT, "%s says that it has %s, and does not", s->name, name);
    if (e->dtype > FP16) return FAIL(E_FORMAT, "%s: %s is of dtype %s; weights and moments are F64, F32, BF16 or F16", s->name, name, e->dtype_name);
    if (e->end - e->begin != piece->n * (int64_t)dtype_size(e->dtype))
        return FAIL(E_FORMAT, "%s: %s has %" PRId64 " bytes, and its part of the tensor %" PRId64 " elements", s->name, name, e->end - e->begin, piece->n);
    return OK;
}

static enum status take_from(const struct shard_file *s, const struct param *w, enum state_array a, struct target *t) {
    char name[NAME_MAX_LEN + 16];
    struct piece piece;
    const json_t *row = json_object_get(s->pieces, w->name);
    if (!row) return OK;
    snprintf(name, sizeof name, "%s%s", w->name, state_suffix[a]);
    TRY(checkpoint_piece_parse(row, s->name, &piece));
    t->file = s->file;
    t->entry = safetensors_find(s->file, name);
    TRY(check_entry(s, t->entry, &piece, name));
    for (int i = 0; i < t->piece.box.n_axes; i++)
        if (piece.box.n_axes != t->piece.box.n_axes || piece.box.axis[i].global != t->piece.box.axis[i].global)
            return FAIL(E_FORMAT, "%s: %s is part of a tensor of another shape", s->name, name);
    return piece_common(&t->piece, &piece, take, t);
}

static bool all_finite(const struct target *t) {
    for (int64_t i = 0; i < t->piece.n; i++)
        if (!isfinite(dtype_get(t->at, t->dtype, i))) return false;
    return true;
}

/* Padding stays zero, as it is in training. */
static enum status gather(const struct manifest *m, const struct param *w, enum state_array a, struct target *t) {
    for (int i = 0; i < m->n; i++) TRY(take_from(&m->shards[i], w, a, t));
    int64_t wanted = piece_real_n(&t->piece);
    if (t->filled != wanted)
        return FAIL(E_FORMAT, "%s has %" PRId64 " of the %" PRId64 " elements of %s%s that this rank needs; the checkpoint is not whole", m->path,
                    t->filled, wanted, w->name, state_suffix[a]);
    return all_finite(t) ? OK : FAIL(E_FORMAT, "%s: %s%s holds a number that is not finite; use an earlier checkpoint", m->path, w->name, state_suffix[a]);
}

/* room_n: elements of the place, padding included. */
static enum status load_tensor(const struct manifest *m, const struct param *w, enum state_array a, struct piece piece, enum dtype dtype,
                               int64_t room_n, const struct device *device, void *to) {
    int64_t bytes = room_n * (int64_t)dtype_size(dtype);
    struct target t = {.piece = piece, .dtype = dtype, .at = calloc(1, (size_t)bytes + 1), .buffer = malloc(READ_BYTES)};
    enum status status = t.at && t.buffer ? OK : FAIL(E_MEMORY, "no memory to read %s", w->name);
    if (status == OK) status = gather(m, w, a, &t);
    if (status == OK) status = device->upload(device, to, t.at, bytes);
    free(t.at);
    free(t.buffer);
    return status;
}

static enum status load_states(struct run *r, const struct manifest *m, const struct param *w) {
    const struct device *states = w->state_on_host ? device_cpu() : r->device;
    struct piece own = {w->type.shape, w->own_first, w->own_n};
    TRY(load_tensor(m, w, STATE_MOMENT1, own, w->state_dtype, param_state_n(w), states, w->moment1));
    return load_tensor(m, w, STATE_MOMENT2, own, w->state_dtype, param_state_n(w), states, w->moment2);
}

static enum status load_weight(struct run *r, const struct manifest *m, const struct param *w) {
    const struct device *weights = w->weight_on_host ? device_cpu() : r->device, *states = w->state_on_host ? device_cpu() : r->device;
    struct piece own = {w->type.shape, w->own_first, w->own_n};
    if (w->master) TRY(load_tensor(m, w, STATE_WEIGHT, own, w->state_dtype, param_state_n(w), states, w->master_weight));
    return load_tensor(m, w, STATE_WEIGHT, checkpoint_resident_piece(w), w->type.dtype, param_resident_n(w, w->weight_at), weights, w->weight);
}

static enum status load_params(struct run *r, const struct manifest *m, enum checkpoint_part part) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || w->cache) continue;
        TRY(load_weight(r, m, w));
        if (part == CHECKPOINT_ALL) TRY(load_states(r, m, w));
    }
    return OK;
}

/* ---- where the run is ---- */

static enum status load_progress(struct run *r, const struct manifest *m) {
    const json_t *techniques = json_object_get(m->json, "techniques");
    r->n_step = r->n_done = r->resumed_step = m->step;
    r->n_update = m->update;
    r->resumed_samples = m->samples;
    TRY(r->device->clear(r->device, &r->scalars[SCALAR_HEALTH], sizeof(double)));   /* all is finite again */
    for (int i = 0; i < r->n_active; i++) {
        const json_t *kept = json_object_get(techniques, r->active[i]->name);
        if (kept && r->active[i]->load && r->self[i]) TRY(r->active[i]->load(r, r->self[i], kept));
    }
    return OK;
}

static enum status same_seed(const struct manifest *m, const struct plan *p) {
    if (m->seed == p->seed) return OK;
    return FAIL(E_FORMAT, "%s was trained with seed=%" PRId64 ", and seed=%" PRId64 " is asked for: data and dropout would not go on; leave seed as it was",
                m->path, m->seed, p->seed);
}

/* ---- together ---- */

enum status checkpoint_load(struct run *r, const char *step, enum checkpoint_part part) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    struct manifest m;
    enum status status = manifest_read(&m, step);
    if (status == OK) status = same_model(&m, &r->plan);
    if (status == OK && part == CHECKPOINT_ALL) status = same_seed(&m, &r->plan);
    status = fail_agree(mesh, status);
    if (status == OK) status = fail_agree(mesh, check_shards(&m, mesh));
    if (status == OK) status = fail_agree(mesh, manifest_open_shards(&m));
    if (status == OK) {
        status = load_params(r, &m, part);
        if (status == OK && part == CHECKPOINT_ALL) status = load_progress(r, &m);
        status = fail_agree(mesh, status);
    }
    manifest_fini(&m);
    return status;
}
