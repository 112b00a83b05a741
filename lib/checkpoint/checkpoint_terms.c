#include "lib/checkpoint/checkpoint_terms.h"

#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint_piece.h"
#include "lib/comm/comm.h"
#include <stdlib.h>
#include <string.h>

bool checkpoint_term(const struct run *r, int i, struct rank_term *out) {
    for (int k = 0; k < r->n_active; k++)                  /* only the active technique that sums gradients has terms */
        if (r->active[k]->term && r->self[k]) return r->active[k]->term(r, r->self[k], i, out);
    return false;
}

void checkpoint_term_name(const char *param, const char *kind, char out[CHECKPOINT_TERM_NAME]) {
    snprintf(out, CHECKPOINT_TERM_NAME, "%s.%s", param, kind);
}

/* ---- comparing the layouts ---- */
static bool same_piece(const struct piece *a, const struct piece *b) {
    bool same = a->first == b->first && a->n == b->n && a->box.n_axes == b->box.n_axes;
    for (int i = 0; same && i < a->box.n_axes; i++) {
        const struct axis *x = &a->box.axis[i], *y = &b->box.axis[i];
        same = x->first == y->first && x->n == y->n && x->global == y->global;
    }
    return same;
}

/* Does the file have exactly the terms that this rank has? */
static bool has_just_mine(const struct run *r, const struct shard_file *s) {
    struct rank_term t;
    size_t n = 0;
    for (int i = 0; checkpoint_term(r, i, &t); i++) {
        char name[CHECKPOINT_TERM_NAME];
        struct piece piece;
        if (t.piece.n == 0) continue;
        checkpoint_term_name(t.param, t.kind, name);
        const json_t *row = json_object_get(s->terms, name);
        if (!row || checkpoint_piece_parse(row, s->name, &piece) != OK || !same_piece(&piece, &t.piece)) return false;
        n++;
    }
    return n == json_object_size(s->terms);
}

enum status checkpoint_terms_fit(const struct run *r, const struct manifest *m, bool *out) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    int32_t same = m->n == group_size(mesh) && has_just_mine(r, &m->shards[group_rank(mesh)]);
    status_clear();                                       /* a malformed row is an error later, when terms are summed */
    TRY(comm_all_reduce(mesh, &same, 1, INT32, COMM_MIN));
    *out = same;
    return OK;
}

/* ---- reading ---- */
enum { READ_ELEMENTS = 1 << 16 };
/* A term that is being assembled in host memory. */
struct target {
    struct piece piece;
    float *at;
    const struct safetensors *file;
    const struct safetensors_entry *entry;
    char raw[READ_ELEMENTS * sizeof(double)];
    float read[READ_ELEMENTS];
};

static enum status add(void *self, int64_t to_at, int64_t from_at, int64_t n) {
    struct target *t = self;
    int64_t size = (int64_t)dtype_size(t->entry->dtype);
    for (int64_t done = 0; done < n; done += READ_ELEMENTS) {
        int64_t part = n - done < READ_ELEMENTS ? n - done : READ_ELEMENTS;
        TRY(safetensors_read(t->file, t->entry, (from_at + done) * size, part * size, t->raw));
        dtype_convert(t->read, FP32, t->raw, t->entry->dtype, part);
        for (int64_t i = 0; i < part; i++) t->at[to_at + done + i] += t->read[i];
    }
    return OK;
}

static enum status add_row(const struct shard_file *s, const char *name, const json_t *row, struct target *t) {
    struct piece piece;
    t->file = s->file;
    TRY(checkpoint_piece_find(row, s->file, s->name, name, &t->piece, &piece, &t->entry));
    return piece_common(&t->piece, &piece, add, t);
}

/* Add all of the file's terms for this param, of any kind; or only the tensor `only`. */
static enum status add_file(const struct shard_file *s, const char *param, const char *only, struct target *t) {
    const char *name;
    json_t *row;
    json_object_foreach(s->terms, name, row) {
        const char *of = json_string_value(json_object_get(row, "param"));
        if (!of) return FAIL(E_FORMAT, "%s: its metadata do not say of which param %.64s is", s->name, name);
        if (only ? !strcmp(name, only) : !strcmp(of, param)) TRY(add_row(s, name, row, t));
    }
    return OK;
}

static enum status load_term(struct run *r, const struct manifest *m, bool same, const struct rank_term *term,
                             struct target *t) {
    char name[CHECKPOINT_TERM_NAME];
    checkpoint_term_name(term->param, term->kind, name);
    /* -0 + x is x bit for bit, even if x is -0 */
    for (int64_t i = 0; i < term->piece.n; i++) t->at[i] = same ? -0.f : 0;
    if (same) TRY(add_file(&m->shards[group_rank(r->mesh.group[AXIS_MESH])], term->param, name, t));
    for (int i = 0; i < m->n && !same && term->takes_sum; i++) TRY(add_file(&m->shards[i], term->param, NULL, t));
    if (!dtype_all_finite(t->at, FP32, term->piece.n))
        return FAIL(E_FORMAT, "%s: %s has an element that is not finite; use an earlier checkpoint", m->path, name);
    return r->device->upload(r->device, term->at, t->at, term->piece.n * (int64_t)sizeof(float));
}

enum status checkpoint_take_terms(struct run *r, const struct manifest *m, bool same) {
    struct target *t = malloc(sizeof *t);
    struct rank_term term;
    enum status status = t ? OK : FAIL(E_MEMORY, "no memory to read %s", m->path);
    for (int i = 0; status == OK && checkpoint_term(r, i, &term); i++) {
        if (term.piece.n == 0) continue;
        t->piece = term.piece;
        t->at = malloc((size_t)term.piece.n * sizeof(float));
        status = t->at ? load_term(r, m, same, &term, t) : FAIL(E_MEMORY, "no memory to read %s", term.param);
        free(t->at);
    }
    free(t);
    return status;
}

static void warn(const struct run *r, const struct manifest *m) {
    size_t n = 0;
    struct rank_term t;
    bool wanted = checkpoint_term(r, 0, &t);
    for (int i = 0; i < m->n; i++) n += json_object_size(m->shards[i].terms);
    if (group_rank(r->mesh.group[AXIS_MESH]) != 0 || wanted == (n > 0)) return;
    if (wanted) log_warn("%s has no residuals: they begin as zero", m->path);
    else log_warn("%s has residuals of gradients, and this run keeps none: they are dropped", m->path);
}

enum status checkpoint_load_terms(struct run *r, const struct manifest *m) {
    bool same = false;
    TRY(checkpoint_terms_fit(r, m, &same));
    warn(r, m);
    return checkpoint_take_terms(r, m, same);
}
