#define _GNU_SOURCE /* renameat2 */
#include "lib/comm/comm.h"
#include "lib/run/checkpoint_files.h"
#include "lib/run/checkpoint_piece.h"
#include "lib/run/safetensors.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGING_BYTES = 16 << 20 };       /* state of a GPU comes to the host in parts of this size */

/* What rank 0 must know of every rank's file. */
struct shard { int64_t bytes; uint64_t hash; };

/* ---- one rank's file ---- */

/* A tensor of a file: where its elements lie. */
struct stored { const struct device *device; const void *at; int64_t bytes; };

struct shard_plan {
    struct safetensors_entry *entries;
    struct stored *stored;
    int n;
    json_t *pieces;
};

static struct stored stored_of(const struct run *r, const struct param *w, enum state_array a) {
    const void *at[N_STATE_ARRAYS] = {w->master ? w->master_weight : param_own_weight(w), w->moment1, w->moment2};
    bool on_host = a == STATE_WEIGHT && !w->master ? w->weight_on_host : w->state_on_host;
    return (struct stored){on_host ? device_cpu() : r->device, at[a], 0};
}

/* A run that is all of its box has the box's shape. */
static void set_shape(struct safetensors_entry *e, const struct piece *p) {
    bool whole = p->first == 0 && p->n == shape_n(&p->box);
    e->n_axes = whole ? p->box.n_axes : 1;
    e->shape[0] = p->n;
    for (int i = 0; i < p->box.n_axes && whole; i++) e->shape[i] = p->box.axis[i].n;
}

static enum status plan_param(const struct run *r, const struct param *w, struct shard_plan *s) {
    struct piece piece = checkpoint_own_piece(w);
    if (piece.n == 0) return OK;
    json_object_set_new(s->pieces, w->name, checkpoint_piece_json(&piece));
    for (enum state_array a = 0; a < N_STATE_ARRAYS; a++) {
        struct safetensors_entry *e = &s->entries[s->n];
        char name[NAME_MAX_LEN + 16];
        snprintf(name, sizeof name, "%s%s", w->name, state_suffix[a]);
        e->name = strdup(name);
        if (!e->name) return FAIL(E_MEMORY, "no memory for the names of a checkpoint");
        e->dtype = w->master || a != STATE_WEIGHT ? w->state_dtype : w->type.dtype;
        set_shape(e, &piece);
        s->stored[s->n] = stored_of(r, w, a);
        s->stored[s->n++].bytes = piece.n * (int64_t)dtype_size(e->dtype);
    }
    return OK;
}

static enum status plan_shard(const struct run *r, struct shard_plan *s) {
    int most = r->program.n_params * N_STATE_ARRAYS;
    *s = (struct shard_plan){.entries = calloc((size_t)most + 1, sizeof *s->entries), .stored = calloc((size_t)most + 1, sizeof *s->stored),
                             .pieces = json_object()};
    if (!s->entries || !s->stored || !s->pieces) return FAIL(E_MEMORY, "no memory for the tables of a checkpoint");
    for (int i = 0; i < r->program.n_params; i++) TRY(plan_param(r, &r->program.params[i], s));
    return OK;
}

static void shard_plan_fini(struct shard_plan *s) {
    for (int i = 0; i < s->n; i++) free(s->entries[i].name);
    free(s->entries);
    free(s->stored);
    json_decref(s->pieces);
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

static enum status write_planned(const struct shard_plan *s, const char *path, struct shard *out) {
    char *pieces = json_dumps(s->pieces, JSON_COMPACT);
    struct safetensors_writer *w = NULL;
    if (!pieces) return FAIL(E_MEMORY, "no memory to write %s", path);
    struct safetensors_pair metadata[] = {{"format", "trivium"}, {"pieces", pieces}};
    enum status status = safetensors_create(path, s->entries, s->n, metadata, 2, &w);
    free(pieces);
    if (status == OK) status = write_tensors(s, w);
    if (status == OK) return safetensors_finish(&w, &out->bytes, &out->hash);
    safetensors_abandon(&w);
    return status;
}

static enum status write_shard(const struct run *r, const char *folder, struct shard *out) {
    char path[CHECKPOINT_PATH_MAX];
    struct shard_plan s;
    TRY(checkpoint_shard_path(folder, group_rank(r->mesh.group[AXIS_MESH]), path));
    enum status status = plan_shard(r, &s);
    if (status == OK) status = write_planned(&s, path, out);
    shard_plan_fini(&s);
    return status;
}

/* ---- rank 0's part ---- */

static json_t *text_of_int(int64_t x) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, x);                      /* as text: many readers keep numbers as doubles */
    return json_string(text);
}

static json_t *shards_json(const struct shard *shards, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char name[64], hash[24];
        snprintf(name, sizeof name, "rank-%05d.safetensors", i);
        snprintf(hash, sizeof hash, "%016" PRIx64, shards[i].hash);
        json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "file", name, "bytes", text_of_int(shards[i].bytes), "xxh3", hash));
    }
    return list;
}

/* What techniques keep; under their names. */
static json_t *techniques_json(const struct run *r) {
    json_t *all = json_object();
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->save && r->self[i]) json_object_set_new(all, r->active[i]->name, r->active[i]->save(r->self[i]));
    return all;
}

static json_t *manifest_json(const struct run *r, const struct shard *shards, int n) {
    const struct plan *p = &r->plan;
    json_t *model = json_pack("{s:I, s:I, s:I, s:I, s:I}", "layers", (json_int_t)p->layers, "hidden", (json_int_t)p->hidden, "heads",
                              (json_int_t)p->heads, "seq", (json_int_t)p->seq, "vocab", (json_int_t)p->vocab);
    json_t *layout = json_pack("{s:I, s:I, s:I, s:I}", "dp", (json_int_t)p->dp, "tp", (json_int_t)p->tp, "pp", (json_int_t)p->pp, "zero",
                               (json_int_t)p->zero);
    json_t *adamw = json_pack("{s:f, s:f, s:f, s:f}", "beta1", p->beta1, "beta2", p->beta2, "eps", p->eps, "weight_decay", p->weight_decay);
    return json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format", "trivium checkpoint", "version", CHECKPOINT_VERSION, "step",
                     text_of_int(r->n_done), "update", text_of_int(r->n_update), "samples", text_of_int(run_samples_used(r)), "seed",
                     text_of_int(p->seed), "model", model, "layout", layout, "adamw", adamw, "techniques", techniques_json(r), "shards",
                     shards_json(shards, n));
}

static enum status write_manifest(const struct run *r, const char *folder, const struct shard *shards, int n) {
    json_t *manifest = manifest_json(r, shards, n);
    char *text = manifest ? json_dumps(manifest, JSON_INDENT(1)) : NULL;
    enum status status = text ? checkpoint_replace_text(folder, "manifest.json", text) : FAIL(E_MEMORY, "no memory for a manifest");
    free(text);
    json_decref(manifest);
    return status;
}

/* A step that is saved once more changes places with the old one, which is then removed: whatever `latest` names is there all the time. */
static enum status give_name(const char *unfinished, const char *final) {
    if (rename(unfinished, final) == 0) return OK;
    if ((errno == ENOTEMPTY || errno == EEXIST) && renameat2(AT_FDCWD, unfinished, AT_FDCWD, final, RENAME_EXCHANGE) == 0)
        return checkpoint_remove_folder(unfinished);
    return FAIL(E_IO, "cannot rename %s to %s: %s", unfinished, final, strerror(errno));
}

/* All files are there: give the directory its name, and say that it is the latest. */
static enum status publish(const struct run *r, const char *save, const char *unfinished, const struct shard *shards, int n, int64_t keep) {
    char final[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_step_path(save, r->n_done, false, final));
    TRY(write_manifest(r, unfinished, shards, n));
    TRY(give_name(unfinished, final));
    TRY(checkpoint_flush_folder(save));
    TRY(checkpoint_replace_text(save, "latest", strrchr(final, '/') + 1));
    return checkpoint_prune(save, keep, r->n_done);
}

static enum status begin(const char *save, const char *unfinished) {
    TRY(checkpoint_make_folder(save));
    TRY(checkpoint_remove_folder(unfinished));
    return checkpoint_make_folder(unfinished);
}

/* ---- together ---- */

/* A failure is every rank's, with the first failing rank's sentence; nothing is printed, as the caller may go on. */
static enum status agree(const struct group *mesh, enum status mine) {
    char text[1024];
    enum status status = fail_share(mesh, mine, text, sizeof text);
    return status == OK || !text[0] ? status : FAIL(status, "%s", text);
}

enum status checkpoint_save(struct run *r, const char *save, int64_t keep) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    int n = group_size(mesh);
    bool first = group_rank(mesh) == 0;
    char unfinished[CHECKPOINT_PATH_MAX];
    struct shard mine = {0}, *all = calloc((size_t)n, sizeof *all);
    enum status status = all ? checkpoint_step_path(save, r->n_done, true, unfinished) : FAIL(E_MEMORY, "no memory for %d shards", n);
    if (status == OK && first) status = begin(save, unfinished);
    status = agree(mesh, status);
    if (status == OK) status = agree(mesh, write_shard(r, unfinished, &mine));
    if (status == OK) status = comm_all_gather(mesh, &mine, all, sizeof mine, UINT8);
    if (status == OK) status = agree(mesh, first ? publish(r, save, unfinished, all, n, keep) : OK);
    free(all);
    return status;
}
