/* Keeps snapshots in this rank's memory, and in its right neighbor's. */
#include "elastic/elastic_job.h"

#include "lib/checkpoint/snapshot.h"
#include "lib/comm/comm.h"
#include <stdlib.h>
#include <string.h>

enum { TAG = 3 };

static const struct group *mesh_of(const struct run *r) { return r->mesh.group[AXIS_MESH]; }

enum status elastic_finish(struct generation *g) {
    if (!g->coming) return OK;
    TRY(comm_wait(&g->receiving));
    TRY(comm_wait(&g->sending));
    g->coming->left_step = g->coming->own_step;
    g->coming = NULL;
    return OK;
}

/* ---- headers: once a run ---- */
static enum status pass_on(const struct group *mesh, const struct generation *g, const void *out, int64_t n_out,
                           void *in, int64_t n_in) {
    struct comm_request sending, receiving;
    TRY(comm_recv_start(mesh, in, n_in, UINT8, g->left_rank, TAG, &receiving));
    TRY(comm_send_start(mesh, out, n_out, UINT8, g->right_rank, TAG, &sending));
    TRY(comm_wait(&receiving));
    return comm_wait(&sending);
}

static enum status exchange_headers(const struct group *mesh, struct generation *g) {
    int64_t own = (int64_t)strlen(g->own_header) + 1, left = 0;
    TRY(pass_on(mesh, g, &own, (int64_t)sizeof own, &left, (int64_t)sizeof left));
    g->left_header = malloc((size_t)left);
    enum status status = g->left_header ? OK : FAIL(E_MEMORY, "no memory for %lld bytes of header", (long long)left);
    TRY(fail_agree(mesh, status));
    return pass_on(mesh, g, g->own_header, own, g->left_header, left);
}

/* ---- snapshots ---- */
/* The index k of the generation to which snapshot x belongs. If of[k] is not yet g, drop it and store g there. */
static int generation_of(const struct membership_snapshot *x, struct generation *g) {
    struct elastic_job *job = elastic_job();
    int k = x >= job->store.kept[1].of;
    if (job->of[k] != g) {
        int32_t epoch = job->store.kept[k].epoch;
        elastic_drop(k);
        job->store.kept[k].epoch = epoch;
        job->of[k] = g;
    }
    return k;
}

static enum status keep(struct run *r, struct generation *g) {
    struct elastic_job *job = elastic_job();
    const struct group *mesh = mesh_of(r);
    struct membership now, from;
    TRY(elastic_finish(g));
    comm_epoch_members(&now, &from);
    struct membership_snapshot *x = membership_room(&job->store, now.number, from.number);
    int i = (int)(x - job->store.kept[generation_of(x, g)].of);
    TRY(snapshot_take(r, g->own[i], g->own_bytes));
    x->own_step = r->n_done;
    if (group_size(mesh) == 1) {
        x->left_step = x->own_step;
        return OK;
    }
    const int64_t size = (int64_t)sizeof(double);
    TRY(comm_recv_start(mesh, g->left[i], g->left_bytes / size, FP64, g->left_rank, TAG, &g->receiving));
    TRY(comm_send_start(mesh, g->own[i], g->own_bytes / size, FP64, g->right_rank, TAG, &g->sending));
    g->coming = x;
    return OK;
}

enum status elastic_begin(struct run *r) {
    struct generation *g = elastic_of(r);
    if (!g) return OK;
    elastic_happens(EVENT_MOVED);
    TRY(fail_agree(mesh_of(r), snapshot_header(r, &g->own_header)));
    if (group_size(mesh_of(r)) > 1) TRY(exchange_headers(mesh_of(r), g));
    TRY(keep(r, g));
    TRY(elastic_finish(g));
    if (elastic_happens(EVENT_COPIED) == DO_COMMIT) comm_epoch_commit();
    return OK;
}

bool elastic_is_due(const struct run *r, int64_t n_step) {
    int64_t every = elastic_of(r) ? elastic_options(&r->plan)->every : 0;
    return every && n_step % every == 0 && n_step < r->plan.steps && !r->apart;
}

/* Once this epoch is committed, drop the earlier epoch's snapshots, because no rank goes back to them. */
static void forget_others(const struct generation *g) {
    for (int k = 0; k < 2 && comm_epoch_is_committed(); k++)
        if (elastic_job()->of[k] != g) elastic_drop(k);
}

enum status elastic_drain(struct run *r) {
    struct generation *g = elastic_of(r);
    struct membership now, from;
    comm_epoch_members(&now, &from);
    if (!membership_find(&elastic_job()->store, now.number, r->n_done)) {
        forget_others(g);
        TRY(run_emit(r, EVENT_STATE_READ));      /* a snapshot needs the late updates */
        TRY(keep(r, g));
    }
    TRY(elastic_finish(g));
    return elastic_happens(EVENT_ASKED) == DO_DRAIN ? comm_epoch_drain() : OK;
}

enum status elastic_keep(struct run *r) {
    struct generation *g = elastic_of(r);
    if (!elastic_is_due(r, r->n_done)) return OK;
    forget_others(g);
    return keep(r, g);
}
