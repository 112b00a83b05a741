/* One rank's file: the list of its tensors, their memory, and writing them. */
#include "lib/checkpoint/checkpoint_save.h"
#include "lib/checkpoint/checkpoint_terms.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 16 << 20 };       /* the size of a part in which GPU memory is copied to the host */

static struct stored stored_of(const struct run *r, const struct param *w, const struct param_array *a, int64_t n) {
    const void *at = a == &w->arrays[ARRAY_WEIGHT] ? param_own_weight(w) : a->at;
    return (struct stored){run_tier_device(r, a->tier), at, n * (int64_t)dtype_size(a->dtype)};
}

/* A piece that is its whole box gets the box's shape; any other piece has one axis. */
static void set_shape(struct safetensors_entry *e, const struct piece *p) {
    bool whole = p->first == 0 && p->n == shape_n(&p->box);
    e->n_axes = whole ? p->box.n_axes : 1;
    e->shape[0] = p->n;
    for (int i = 0; i < p->box.n_axes && whole; i++) e->shape[i] = p->box.axis[i].n;
}

static enum status plan_param(const struct run *r, const struct param *w, struct shard_plan *s) {
    struct piece piece = param_own_piece(w);
    if (piece.n == 0 || w->gradient_of) return OK;
    char own[CHECKPOINT_NAME_MAX], name[CHECKPOINT_NAME_MAX + 16];
    checkpoint_param_name(w, r->program.apart, own);
    json_object_set_new(s->pieces, own, checkpoint_piece_json(&piece));
    const struct param_array *a;
    for (int i = 0; (a = param_saved(w, i)); i++) {
        struct safetensors_entry *e = &s->entries[s->n];
        snprintf(name, sizeof name, "%s%s", own, a->saved_as);
        e->name = strdup(name);
        if (!e->name) return FAIL(E_MEMORY, "no memory for the names of a checkpoint");
        e->dtype = a->dtype;
        set_shape(e, &piece);
        s->stored[s->n++] = stored_of(r, w, a, piece.n);
    }
    return OK;
}

static enum status plan_term(const struct run *r, const struct rank_term *t, struct shard_plan *s) {
    struct safetensors_entry *e = &s->entries[s->n];
    char name[CHECKPOINT_TERM_NAME];
    if (t->piece.n == 0) return OK;
    checkpoint_term_name(t->param, t->kind, name);
    json_t *row = checkpoint_piece_json(&t->piece);
    json_object_set_new(row, "param", json_string(t->param));
    json_object_set_new(s->terms, name, row);
    if (!(e->name = strdup(name))) return FAIL(E_MEMORY, "no memory for the names of a checkpoint");
    e->dtype = FP32;
    set_shape(e, &t->piece);
    s->stored[s->n++] = (struct stored){r->device, t->at, t->piece.n * (int64_t)sizeof(float)};
    return OK;
}

enum status checkpoint_plan_shard(const struct run *r, struct shard_plan *s) {
    struct rank_term term;
    int n_terms = 0;
    while (checkpoint_term(r, n_terms, &term)) n_terms++;
    int most = r->program.n_params * MAX_ARRAYS + n_terms;
    *s = (struct shard_plan){.entries = calloc((size_t)most + 1, sizeof *s->entries),
                             .stored = calloc((size_t)most + 1, sizeof *s->stored), .pieces = json_object(),
                             .terms = json_object()};
    if (!s->entries || !s->stored || !s->pieces || !s->terms)
        return FAIL(E_MEMORY, "no memory for the tables of a checkpoint");
    if (r->apart)
        return FAIL(E_INTERNAL, "a checkpoint after step %" PRId64 ", and replicas' weights differ until they average",
                    r->n_done);
    for (int i = 0; i < r->program.n_params; i++) TRY(plan_param(r, &r->program.params[i], s));
    for (int i = 0; checkpoint_term(r, i, &term); i++) TRY(plan_term(r, &term, s));
    return OK;
}

void checkpoint_shard_plan_fini(struct shard_plan *s) {
    for (int i = 0; i < s->n; i++) free(s->entries[i].name);
    free(s->entries);
    free(s->stored);
    json_decref(s->pieces);
    json_decref(s->terms);
}

static enum status append(struct safetensors_writer *w, const struct stored *x, void *staging) {
    if (x->device->kind == DEVICE_CPU) return safetensors_append(w, x->at, x->bytes);
    for (int64_t done = 0; done < x->bytes; done += STAGING_BYTES) {
        int64_t n = x->bytes - done < STAGING_BYTES ? x->bytes - done : STAGING_BYTES;
        TRY(x->device->download(x->device, staging, (const char *)x->at + done, n));
        TRY(safetensors_append(w, staging, n));
    }
    return OK;
}

static enum status write_tensors(const struct shard_plan *s, struct safetensors_writer *w) {
    void *staging = malloc(STAGING_BYTES);
    enum status status = staging ? OK : FAIL(E_MEMORY, "no memory to bring a checkpoint to the host");
    for (int i = 0; i < s->n && status == OK; i++) status = append(w, &s->stored[i], staging);
    free(staging);
    return status;
}

enum status shard_texts_make(const struct shard_plan *s, struct shard_texts *out) {
    *out = (struct shard_texts){.pieces = json_dumps(s->pieces, JSON_COMPACT),
                                .terms = json_dumps(s->terms, JSON_COMPACT)};
    out->metadata[0] = (struct safetensors_pair){"format", "trivium"};
    out->metadata[1] = (struct safetensors_pair){"pieces", out->pieces};
    out->metadata[2] = (struct safetensors_pair){"terms", out->terms};
    out->n = json_object_size(s->terms) ? 3 : 2;
    return out->pieces && out->terms ? OK : FAIL(E_MEMORY, "no memory for the metadata of a checkpoint");
}

void shard_texts_free(struct shard_texts *t) {
    free(t->pieces);
    free(t->terms);
}

enum status checkpoint_write_shard(const struct shard_plan *s, const char *path, struct shard *out) {
    struct safetensors_writer *w = NULL;
    struct shard_texts texts;
    enum status status = shard_texts_make(s, &texts);
    if (status == OK) status = safetensors_create(path, s->entries, s->n, texts.metadata, texts.n, &w);
    shard_texts_free(&texts);
    if (status == OK) status = write_tensors(s, w);
    if (status == OK) return safetensors_finish(&w, &out->bytes, &out->hash);
    safetensors_abandon(&w);
    return status;
}
