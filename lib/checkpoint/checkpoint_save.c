#define _GNU_SOURCE /* renameat2 */
#include "lib/base/replace.h"
#include "lib/base/log.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_data.h"
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_lock.h"
#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_save.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- rank 0's part ---- */

static json_t *text_of_int(int64_t x) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, x);             /* as text, because many readers store numbers as doubles */
    return json_string(text);
}

static json_t *shards_json(const struct shard *shards, int n) {
    json_t *list = json_array();
    for (int i = 0; i < n; i++) {
        char name[64], hash[24];
        snprintf(name, sizeof name, "rank-%05d.safetensors", i);
        snprintf(hash, sizeof hash, "%016" PRIx64, shards[i].hash);
        json_array_append_new(list, json_pack("{s:s, s:o, s:s}", "file", name, "bytes", text_of_int(shards[i].bytes),
                                              "xxh3", hash));
    }
    return list;
}

/* The techniques' state, by their names. */
static json_t *techniques_json(const struct run *r) {
    json_t *all = json_object();
    for (int i = 0; i < r->n_active; i++)
        if (r->active[i]->save && r->self[i])
            json_object_set_new(all, r->active[i]->name, r->active[i]->save(r->self[i]));
    return all;
}

/* The layout of the run that saves: sizes of the mesh, and names of the techniques. */
static json_t *layout_json(const struct run *r) {
    json_t *layout = json_object();
    char active[512] = "";
    for (int d = 0; d < N_DIMS; d++)
        if (mesh_dim_is_shown(d, r->plan.mesh.at[d]))
            json_object_set_new(layout, mesh_dim_name(d), json_integer(r->plan.mesh.at[d]));
    for (int i = 0, n = 0; i < r->n_active && n < (int)sizeof active; i++)
        n += snprintf(active + n, sizeof active - (size_t)n, "%s%s", i ? " " : "", r->active[i]->name);
    json_object_set_new(layout, "techniques", json_string(active));
    checkpoint_algorithms(layout);
    return layout;
}

json_t *checkpoint_manifest(const struct run *r) {
    const struct plan *p = &r->plan;
    struct checkpoint_model model = checkpoint_model_of_plan(p);
    json_t *manifest =
        json_pack("{s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "format", "trivium checkpoint", "version",
                  CHECKPOINT_VERSION, "step", text_of_int(r->n_done), "update", text_of_int(r->n_update), "samples",
                  text_of_int(run_samples_used(r)), "seed", text_of_int(p->seed), "model",
                  checkpoint_model_json(&model), "layout",
                  layout_json(r), "data", checkpoint_data_json(r), plan_optimizer(p)->name,
                  checkpoint_optimizer_json(p), "techniques", techniques_json(r));
    if (manifest && r->program.n_apart)
        json_object_set_new(manifest, "replicas", text_of_int(r->program.n_apart));
    return manifest;
}

static enum status write_manifest(json_t *manifest, const char *folder, const struct shard *shards, int n) {
    uint64_t hash = 0;
    char checksum[24];
    bool whole = manifest && json_object_set_new(manifest, "shards", shards_json(shards, n)) == 0 &&
                 manifest_hash(manifest, &hash) == OK;
    snprintf(checksum, sizeof checksum, "%016" PRIx64, hash);
    whole = whole && json_object_set_new(manifest, "xxh3", json_string(checksum)) == 0;
    char *text = whole ? json_dumps(manifest, JSON_INDENT(1)) : NULL;
    enum status status =
        text ? checkpoint_replace_text(folder, "manifest.json", text) : FAIL(E_MEMORY, "no memory for a manifest");
    free(text);
    return status;
}

/* If a step is saved again, its new folder is exchanged with the old one, and pruning removes the old one. So `latest`
 * always names a complete step. On file systems that cannot exchange folders (NFS and others) the step has no name for
 * a moment; checkpoint_latest.c finds it even then. */
static enum status give_name(const char *save, int64_t step, const char *unfinished, const char *final) {
    char aside[CHECKPOINT_PATH_MAX];
    if (rename(unfinished, final) == 0) return OK;
    bool there = errno == ENOTEMPTY || errno == EEXIST;
    if (there && renameat2(AT_FDCWD, unfinished, AT_FDCWD, final, RENAME_EXCHANGE) == 0) return OK;
    int why = errno;
    if (there && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) {
        TRY(checkpoint_step_path(save, step + 1, true, aside));      /* a name that pruning removes, and no rank has
                                                                      * while this step is saved */
        TRY(checkpoint_remove_folder(aside));
        bool is_aside = rename(final, aside) == 0;
        if (is_aside && rename(unfinished, final) == 0) return OK;
        why = errno;
        if (is_aside) (void)rename(aside, final);                 /* if this fails, too, checkpoint_latest.c finds it */
    }
    return FAIL(E_IO, "cannot rename %s to %s: %s", unfinished, final, strerror(why));
}

/* Remove old steps. If that fails, the step is saved all the same, and the next save tries again. */
static void prune(const char *save, int64_t keep, int64_t step) {
    if (checkpoint_prune(save, keep, step) == OK) return;
    log_warn("older checkpoints in %s stay: %s", save, status_message());
    status_clear();
}

enum status checkpoint_publish(json_t *manifest, const char *save, int64_t step, const struct shard *shards, int n,
                               int64_t keep) {
    char unfinished[CHECKPOINT_PATH_MAX], final[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_step_path(save, step, true, unfinished));
    TRY(checkpoint_step_path(save, step, false, final));
    TRY(checkpoint_lock_check(save));
    checkpoint_carry(unfinished, final);
    TRY(write_manifest(manifest, unfinished, shards, n));
    TRY(checkpoint_lock_check(save));
    TRY(give_name(save, step, unfinished, final));
    TRY(durable_folder(save));
    TRY(checkpoint_lock_check(save));
    TRY(checkpoint_replace_text(save, "latest", strrchr(final, '/') + 1));
    TRY(checkpoint_lock_check(save));
    prune(save, keep, step);
    return OK;
}

enum status checkpoint_begin(const char *save, const char *unfinished) {
    TRY(checkpoint_lock_check(save));
    TRY(checkpoint_make_folder(save));
    TRY(checkpoint_restore_name(save));
    (void)checkpoint_remove_unfinished(save);                        /* leftovers of others do no harm */
    TRY(checkpoint_remove_folder(unfinished));
    if (mkdir(unfinished, 0777) == 0) return OK;
    return FAIL(E_IO, "cannot make the folder %s: %s", unfinished, strerror(errno));
}

/* ---- the whole save ---- */

enum status checkpoint_agree(const struct group *mesh, enum status mine) {
    char text[1024];
    enum status status = fail_share(mesh, mine, text, sizeof text);
    return status == OK || !text[0] ? status : FAIL(status, "%s", text);
}

enum status checkpoint_undo(const struct group *mesh, const char *save, int64_t step, enum status status) {
    char unfinished[CHECKPOINT_PATH_MAX], why[1024];
    if (status == OK || status == E_EPOCH || checkpoint_is_stranded(status) || group_rank(mesh) != 0) return status;
    snprintf(why, sizeof why, "%s", status_message());
    if (checkpoint_lock_check(save) == OK && checkpoint_step_path(save, step, true, unfinished) == OK &&
        checkpoint_remove_folder(unfinished) == OK)
        return status;
    return FAIL(status, "%s", why);                          /* without the reason, because the next save tries again */
}

static enum status write_own(const struct run *r, const char *folder, struct shard *out) {
    char path[CHECKPOINT_PATH_MAX];
    struct shard_plan s;
    TRY(checkpoint_shard_path(folder, group_rank(r->mesh.group[AXIS_MESH]), path));
    enum status status = checkpoint_plan_shard(r, &s);
    if (status == OK) status = checkpoint_write_shard(&s, path, out);
    checkpoint_shard_plan_fini(&s);
    return status;
}

static enum status publish(const struct run *r, const char *save, const struct shard *shards, int n, int64_t keep) {
    json_t *manifest = checkpoint_manifest(r);
    enum status status = checkpoint_publish(manifest, save, r->n_done, shards, n, keep);
    json_decref(manifest);
    return status;
}

enum status checkpoint_save(struct run *r, const char *save, int64_t keep) {
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    if (r->exec.since_flush > 0)
        return FAIL(E_INTERNAL, "a checkpoint after step %" PRId64 ", and the pipeline is not empty", r->n_done);
    TRY(run_emit(r, EVENT_STATE_READ));                             /* finish late updates, so that the save has them */
    int n = group_size(mesh);
    bool first = group_rank(mesh) == 0;
    char unfinished[CHECKPOINT_PATH_MAX];
    struct shard mine = {0}, *all = calloc((size_t)n, sizeof *all);
    enum status status =
        all ? checkpoint_step_path(save, r->n_done, true, unfinished) : FAIL(E_MEMORY, "no memory for %d shards", n);
    if (status == OK && first) status = checkpoint_begin(save, unfinished);
    status = checkpoint_agree(mesh, status);
    if (status == OK) status = checkpoint_agree(mesh, write_own(r, unfinished, &mine));
    if (status == OK) status = comm_all_gather(mesh, &mine, all, sizeof mine, UINT8);
    if (status == OK) status = checkpoint_agree(mesh, first ? publish(r, save, all, n, keep) : OK);
    free(all);
    return checkpoint_undo(mesh, save, r->n_done, status);
}
