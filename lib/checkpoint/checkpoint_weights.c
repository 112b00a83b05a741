#include "lib/checkpoint/checkpoint_lock.h"
#include "lib/checkpoint/checkpoint_save.h"
#include "lib/checkpoint/checkpoint_tensor.h"
#include <stdlib.h>
#include <unistd.h>

struct checkpoint_writer {
    char save[CHECKPOINT_PATH_MAX], unfinished[CHECKPOINT_PATH_MAX];
    struct checkpoint_model model;
    struct safetensors_writer *file;
    struct checkpoint_lock *lock;
    bool begun;                          /* this writer has made the unfinished folder */
};

/* ---- the file ---- */

static enum status plan_file(const struct checkpoint_weight *weights, int n, struct safetensors_entry *entries,
                             json_t *pieces) {
    for (int i = 0; i < n; i++) {
        const struct shape *shape = &weights[i].shape;
        struct piece whole = {*shape, 0, shape_n(shape)};
        entries[i] = (struct safetensors_entry){.name = (char *)weights[i].param, .dtype = weights[i].dtype,
                                                .n_axes = shape->n_axes};
        for (int a = 0; a < shape->n_axes; a++) entries[i].shape[a] = shape->axis[a].n;
        if (json_object_set_new(pieces, weights[i].param, checkpoint_piece_json(&whole)) != 0)
            return FAIL(E_MEMORY, "no memory for the tables of a checkpoint");
    }
    return OK;
}

static enum status create_file(struct checkpoint_writer *w, const struct checkpoint_weight *weights, int n) {
    char path[CHECKPOINT_PATH_MAX];
    struct safetensors_entry *entries = calloc((size_t)n + 1, sizeof *entries);
    json_t *pieces = json_object();
    enum status status = entries && pieces ? checkpoint_shard_path(w->unfinished, 0, path)
                                           : FAIL(E_MEMORY, "no memory for the tables of a checkpoint");
    if (status == OK) status = plan_file(weights, n, entries, pieces);
    char *text = status == OK ? json_dumps(pieces, JSON_COMPACT) : NULL;
    if (status == OK && !text) status = FAIL(E_MEMORY, "no memory for the tables of a checkpoint");
    struct safetensors_pair metadata[] = {{"format", "trivium"}, {"pieces", text}};
    if (status == OK) status = safetensors_create(path, entries, n, metadata, 2, &w->file);
    free(text);
    json_decref(pieces);
    free(entries);
    return status;
}

/* ---- the folder ---- */

static enum status refuse_others(const char *save) {
    char latest[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_path(save, "latest", latest));
    return access(latest, F_OK) != 0 ? OK
                                     : FAIL(E_CONFIG, "%s has checkpoints already; give a folder of its own", save);
}

static enum status create(struct checkpoint_writer *w, const char *save, const struct checkpoint_weight *weights,
                          int n) {
    TRY(checkpoint_step_path(save, 0, true, w->unfinished));
    snprintf(w->save, sizeof w->save, "%s", save);
    TRY(checkpoint_lock(save, &w->lock));
    TRY(refuse_others(save));
    TRY(checkpoint_begin(save, w->unfinished));
    w->begun = true;
    return create_file(w, weights, n);
}

enum status checkpoint_weights_create(const char *save, const struct checkpoint_model *model,
                                      const struct checkpoint_weight *weights, int n, struct checkpoint_writer **out) {
    struct checkpoint_writer *w = *out = calloc(1, sizeof *w);
    if (!w) return FAIL(E_MEMORY, "no memory to write %s", save);
    w->model = *model;
    enum status status = create(w, save, weights, n);
    if (status != OK) checkpoint_weights_abandon(out);
    return status;
}

const char *checkpoint_weights_folder(const struct checkpoint_writer *w) { return w->unfinished; }

enum status checkpoint_weights_append(struct checkpoint_writer *w, const void *from, int64_t bytes) {
    return safetensors_append(w->file, from, bytes);
}

static json_t *manifest_json(const struct checkpoint_model *m) {
    return json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:s, s:o}", "format", "trivium checkpoint", "version",
                     CHECKPOINT_VERSION, "holds", "weights", "step",
                     "0", "update", "0", "samples", "0", "seed", "0", "model", checkpoint_model_json(m));
}

enum status checkpoint_weights_finish(struct checkpoint_writer **writer) {
    struct checkpoint_writer *w = *writer;
    struct shard shard;
    enum status status = safetensors_finish(&w->file, &shard.bytes, &shard.hash);
    json_t *manifest = status == OK ? manifest_json(&w->model) : NULL;
    if (status == OK) status = checkpoint_publish(manifest, w->save, 0, &shard, 1, 0);
    json_decref(manifest);
    w->begun = status != OK;
    checkpoint_weights_abandon(writer);
    return status;
}

/* Remove the folder. If that fails, it keeps its dot, and is never read. */
void checkpoint_weights_abandon(struct checkpoint_writer **writer) {
    struct checkpoint_writer *w = *writer;
    if (!w) return;
    safetensors_abandon(&w->file);
    if (w->begun) (void)checkpoint_remove_folder(w->unfinished);
    checkpoint_unlock(&w->lock);
    free(w);
    *writer = NULL;
}
