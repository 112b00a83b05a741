#include "lib/checkpoint/snapshot.h"

#include "lib/checkpoint/checkpoint_load.h"
#include "lib/checkpoint/checkpoint_save.h"
#include "lib/checkpoint/checkpoint_terms.h"
#include "lib/comm/comm.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- taking a snapshot ---- */
int64_t snapshot_text_bytes(const struct bill *bill) {
    return arena_align(SNAPSHOT_TEXT_BYTES + bill->technique_text_bytes);
}

int64_t snapshot_bytes(const struct program *p, const struct bill *bill) {
    return snapshot_text_bytes(bill) + arena_align(memory_save_bytes(p, bill->technique_save_bytes));
}

enum status snapshot_header(const struct run *r, char **out) {
    struct shard_plan s;
    struct shard_texts texts = {0};
    *out = NULL;
    enum status status = checkpoint_plan_shard(r, &s);
    if (status == OK) status = shard_texts_make(&s, &texts);
    if (status == OK) *out = safetensors_header(s.entries, s.n, texts.metadata, texts.n);
    if (status == OK && !*out) status = FAIL(E_MEMORY, "no memory for the header of a snapshot");
    shard_texts_free(&texts);
    checkpoint_shard_plan_fini(&s);
    return status;
}

static enum status write_manifest(const struct run *r, char *to) {
    const int64_t room = snapshot_text_bytes(&r->bill);
    json_t *manifest = checkpoint_manifest(r);
    if (manifest) json_object_set_new(manifest, "room", json_integer(room));
    char *text = manifest ? json_dumps(manifest, JSON_COMPACT) : NULL;
    enum status status = text ? OK : FAIL(E_MEMORY, "no memory for the manifest of a snapshot");
    if (status == OK && (int64_t)strlen(text) >= room)
        status = FAIL(E_INTERNAL, "the manifest of a snapshot has %zu bytes, and there is room for %" PRId64,
                      strlen(text), room - 1);
    if (status == OK) {
        memset(to, 0, (size_t)room);
        memcpy(to, text, strlen(text));
    }
    free(text);
    json_decref(manifest);
    return status;
}

enum status snapshot_take(const struct run *r, char *to, int64_t bytes) {
    const int64_t room = snapshot_text_bytes(&r->bill);
    struct shard_plan s;
    enum status status = checkpoint_plan_shard(r, &s);
    memset(to + bytes - ARENA_ALIGN, 0, ARENA_ALIGN);                /* the end that no tensor fills */
    if (status == OK) status = write_manifest(r, to);
    if (status == OK) status = checkpoint_take_copy(&s, to + room, bytes - room);
    checkpoint_shard_plan_fini(&s);
    return status;
}

/* ---- loading ---- */
/* One snapshot of the set, opened like a file of a checkpoint. at[k]: the offset of tensor k in it. */
struct source { struct snapshot_mover *mover; int i; const struct safetensors *file; int64_t *at; };
struct load { struct run *r; struct manifest m; struct source *source; bool same_terms; };

static enum status read_bytes(void *self, const struct safetensors_entry *e, int64_t from, int64_t bytes, void *to) {
    const struct source *s = self;
    return snapshot_mover_read(s->mover, s->i, s->at[e - safetensors_at(s->file, 0)] + from, bytes, to);
}

/* at: the room of the manifest, after which the first tensor begins. */
static enum status open_source(struct source *s, const char *header, int64_t at, struct shard_file *out) {
    char label[32];
    snprintf(label, sizeof label, "snapshot %d", s->i);
    snprintf(out->name, sizeof out->name, "%s", label);
    TRY(safetensors_open_header(label, header, read_bytes, s, &out->file));
    TRY(manifest_read_parts(out, label));
    s->file = out->file;
    s->at = calloc((size_t)safetensors_n(s->file) + 1, sizeof *s->at);
    if (!s->at) return FAIL(E_MEMORY, "no memory for the places of %d tensors", safetensors_n(s->file));
    for (int k = 0; k < safetensors_n(s->file); k++) {
        const struct safetensors_entry *e = safetensors_at(s->file, k);
        s->at[k] = at;
        at = arena_align(at + e->end - e->begin);
    }
    return OK;
}

static enum status open_all(struct load *l, const struct snapshot_set *set, struct snapshot_mover *mover) {
    TRY(manifest_parse(&l->m, "the manifest of a snapshot", set->manifest, set->n));
    const int64_t room = json_integer_value(json_object_get(l->m.json, "room"));
    l->source = calloc((size_t)set->n, sizeof *l->source);
    if (room <= 0) return FAIL(E_FORMAT, "the manifest of a snapshot does not say its room");
    if (!l->source) return FAIL(E_MEMORY, "no memory for %d snapshots", set->n);
    for (int i = 0; i < set->n; i++) {
        l->source[i] = (struct source){.mover = mover, .i = i};
        TRY(open_source(&l->source[i], set->header[i], room, &l->m.shards[i]));
    }
    return OK;
}

static enum status load_params(void *self) {
    struct load *l = self;
    return checkpoint_load_params(l->r, &l->m, CHECKPOINT_ALL);
}
static enum status load_terms(void *self) {
    struct load *l = self;
    return checkpoint_take_terms(l->r, &l->m, l->same_terms);
}

static enum status load(struct load *l, struct snapshot_mover *mover) {
    TRY(fail_agree(group_world(), snapshot_mover_run(mover, load_params, l)));
    TRY(fail_agree(group_world(), checkpoint_load_progress(l->r, &l->m)));
    TRY(checkpoint_terms_fit(l->r, &l->m, &l->same_terms));
    return fail_agree(group_world(), snapshot_mover_run(mover, load_terms, l));
}

enum status snapshot_load(struct run *r, const struct snapshot_set *set) {
    struct load l = {.r = r};
    struct snapshot_mover *mover;
    enum status status = snapshot_mover_open(set, &mover);
    if (status == OK) status = open_all(&l, set, mover);
    status = fail_agree(group_world(), status);
    if (status == OK) status = load(&l, mover);
    for (int i = 0; i < set->n && l.source; i++) free(l.source[i].at);
    free(l.source);
    manifest_fini(&l.m);
    snapshot_mover_close(&mover);
    return status;
}
