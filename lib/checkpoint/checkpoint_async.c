/* Saving during training (overview in checkpoint.h): a copy between two steps, and a thread that writes the copy.
 *
 * The thread writes this rank's file. Only the training thread communicates with other ranks. Between later steps it
 * asks whether all files are written; when they are, rank 0's thread publishes the step. A process that is killed
 * meanwhile leaves an unfinished folder, as in any other save. */
#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_save.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct checkpoint_saver {
    const struct group *mesh;
    char save[CHECKPOINT_PATH_MAX], path[CHECKPOINT_PATH_MAX];   /* path: of this rank's file */
    int64_t step, keep;
    struct shard_plan plan;              /* points into the copy */
    json_t *manifest;                    /* only on rank 0 */
    struct shard mine, *all;             /* all: [ranks] */
    bool publishing;
    bool running;                        /* a thread exists and must be joined */
    pthread_t thread;
    atomic_bool done;                    /* set by the thread when it has finished */
    enum status status;                  /* result of the thread's work, and its error message */
    char why[1024];
    double started_s, ended_s;
};

/* ---- the copy ---- */

/* Copy within host memory, with all threads. */
static void copy_on_host(char *to, const char *from, int64_t bytes) {
    enum { PART = 1 << 20 };
    int64_t parts = ceil_div(bytes, PART);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < parts; i++)
        memcpy(to + i * PART, from + i * PART, (size_t)(bytes - i * PART < PART ? bytes - i * PART : PART));
}

enum status checkpoint_take_copy(const struct shard_plan *plan, char *to, int64_t room) {
    int64_t at = 0;
    for (int i = 0; i < plan->n; at = arena_align(at + plan->stored[i++].bytes)) {
        const struct stored *x = &plan->stored[i];
        if (at + x->bytes > room)
            return FAIL(E_INTERNAL, "the copy of a checkpoint needs more than the %lld bytes that were planned",
                        (long long)room);
        if (x->device->kind == DEVICE_CPU) copy_on_host(to + at, x->at, x->bytes);
        else TRY(x->device->download(x->device, to + at, x->at, x->bytes));
    }
    return OK;
}

void checkpoint_use_copy(struct shard_plan *plan, const char *copy) {
    int64_t at = 0;
    for (int i = 0; i < plan->n; at = arena_align(at + plan->stored[i++].bytes))
        plan->stored[i] = (struct stored){device_cpu(), copy + at, plan->stored[i].bytes};
}

/* ---- the thread ---- */

static enum status work(struct checkpoint_saver *s) {
    if (!s->publishing) return checkpoint_write_shard(&s->plan, s->path, &s->mine);
    return checkpoint_publish(s->manifest, s->save, s->step, s->all, group_size(s->mesh), s->keep);
}

static void *thread_main(void *self) {
    struct checkpoint_saver *s = self;
    s->status = work(s);
    snprintf(s->why, sizeof s->why, "%s", status_message());
    s->ended_s = clock_s();
    atomic_store(&s->done, true);
    return NULL;
}

static enum status start_thread(struct checkpoint_saver *s) {
    atomic_store(&s->done, false);
    int error = pthread_create(&s->thread, NULL, thread_main, s);
    s->running = error == 0;
    return error ? FAIL(E_MEMORY, "cannot start a thread that writes the checkpoint: %s", strerror(error)) : OK;
}

/* Join the thread, if there is one. @return the result of its work */
static enum status end_thread(struct checkpoint_saver *s) {
    if (!s->running) return OK;
    pthread_join(s->thread, NULL);
    s->running = false;
    return s->status == OK ? OK : FAIL(s->status, "%s", s->why);
}

/* ---- start, poll, end ---- */

static enum status prepare(struct checkpoint_saver *s, struct run *r, const char *save) {
    char unfinished[CHECKPOINT_PATH_MAX];
    int n = group_size(s->mesh), rank = group_rank(s->mesh);
    if (!(s->all = calloc((size_t)n, sizeof *s->all))) return FAIL(E_MEMORY, "no memory for %d shards", n);
    TRY(checkpoint_step_path(save, s->step, true, unfinished));
    TRY(checkpoint_shard_path(unfinished, rank, s->path));
    snprintf(s->save, sizeof s->save, "%s", save);
    TRY(checkpoint_plan_shard(r, &s->plan));
    if (rank != 0) return OK;
    if (!(s->manifest = checkpoint_manifest(r))) return FAIL(E_MEMORY, "no memory for a manifest");
    return checkpoint_begin(save, unfinished);
}

static enum status begin_writing(struct checkpoint_saver *s, struct run *r) {
    const struct arena *arena = &r->arenas[TIER_HOST][ROLE_SAVE];
    TRY(checkpoint_take_copy(&s->plan, arena_at(arena, 0), arena->bytes));
    checkpoint_use_copy(&s->plan, arena_at(arena, 0));
    return start_thread(s);
}

enum status checkpoint_save_start(struct run *r, const char *save, int64_t keep, struct checkpoint_saver **out) {
    *out = NULL;
    TRY(run_emit(r, EVENT_STATE_READ));                             /* finish late updates, so that the save has them */
    struct checkpoint_saver *s = *out = calloc(1, sizeof *s);
    const struct group *mesh = r->mesh.group[AXIS_MESH];
    if (s) {
        s->mesh = mesh;
        s->step = r->n_done;
        s->keep = keep;
        s->started_s = clock_s();
    }
    enum status status = checkpoint_agree(mesh, s ? prepare(s, r, save) : FAIL(E_MEMORY, "no memory to save"));
    if (status == OK) status = checkpoint_agree(mesh, begin_writing(s, r));
    if (checkpoint_is_stranded(status)) *out = NULL;     /* its thread may hang, so it is left until the process ends */
    if (status == OK || checkpoint_is_stranded(status)) return status;
    checkpoint_save_abandon(out);
    status = checkpoint_agree(mesh, status);                         /* afterwards no rank's thread runs any more */
    return checkpoint_undo(mesh, save, r->n_done, status);
}

/* Called when all files are written: rank 0's thread publishes the step, and the other ranks do nothing. */
static enum status start_publishing(struct checkpoint_saver *s) {
    TRY(comm_all_gather(s->mesh, &s->mine, s->all, sizeof s->mine, UINT8));
    s->publishing = true;
    return checkpoint_agree(s->mesh, group_rank(s->mesh) == 0 ? start_thread(s) : OK);
}

static enum status go_on(struct checkpoint_saver *s, bool wait, bool *ended) {
    for (;;) {
        int32_t done = wait || !s->running || atomic_load(&s->done);
        TRY(comm_all_reduce(s->mesh, &done, 1, INT32, COMM_MIN));
        if (!done) return OK;
        TRY(checkpoint_agree(s->mesh, end_thread(s)));
        *ended = s->publishing;
        if (*ended) return OK;
        TRY(start_publishing(s));
    }
}

enum status checkpoint_save_poll(struct checkpoint_saver **saver, bool wait, struct checkpoint_saved *out) {
    struct checkpoint_saver *s = *saver;
    bool ended = false;
    enum status status = go_on(s, wait, &ended);
    *out = (struct checkpoint_saved){ended && status == OK, s->step, s->ended_s - s->started_s};
    status = checkpoint_undo(s->mesh, s->save, s->step, status);     /* no rank's thread runs after a failure */
    if ((status != OK || ended) && !checkpoint_is_stranded(status)) checkpoint_save_abandon(saver);
    return status;
}

void checkpoint_save_abandon(struct checkpoint_saver **saver) {
    struct checkpoint_saver *s = *saver;
    if (!s) return;
    if (s->running) pthread_join(s->thread, NULL);
    checkpoint_shard_plan_fini(&s->plan);
    json_decref(s->manifest);
    free(s->all);
    free(s);
    *saver = NULL;
}
