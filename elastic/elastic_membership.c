/* A new epoch: finds the step that all ranks go back to, and loads its state in the new layout.
 *
 *     REPORT   each rank reports the newest step of which it has its own shard and its neighbor's; back = the least
 *     MOVE     each shard's holder (its owner, or the right neighbor) broadcasts the header; then the load requests the
 *              bytes from the holders (lib/checkpoint/snapshot.h)
 *
 * COPY is elastic_begin, as in any run. */
#include "elastic/elastic_job.h"

#include "lib/checkpoint/snapshot.h"
#include "lib/comm/comm.h"
#include <stdlib.h>
#include <string.h>

/* ---- REPORT ---- */
/* Drop the snapshots of all epochs except `from`, to which all ranks go back. */
static void drop_others(int32_t from) {
    struct elastic_job *job = elastic_job();
    for (int k = 0; k < 2; k++)
        if (job->of[k] && (from < 0 || job->store.kept[k].epoch != from)) elastic_drop(k);
}

enum status elastic_report(const struct plan *plan, int64_t on_disk, bool *from_memory) {
    const struct membership_shape shape = plan_membership_shape(plan);
    struct elastic_job *job = elastic_job();
    struct membership now, from;
    int64_t said[MEMBERSHIP_MOST_RANKS];
    elastic_happens(EVENT_MEMBER);
    comm_epoch_members(&now, &from);
    drop_others(from.number);
    int64_t mine = from.number < 0 ? -1 : membership_newest(&job->store, from.number);
    TRY(comm_all_gather(group_world(), &mine, said, (int64_t)sizeof mine, UINT8));
    job->back = membership_back(said, &shape, &now, &from);
    *from_memory = elastic_happens(job->back >= 0 && job->back >= on_disk ? EVENT_REPORTED : EVENT_GONE) == DO_MOVE;
    return OK;
}

/* ---- MOVE ---- */
/* The header and snapshot of place i, if this process is the holder of place i; otherwise NULL. */
struct held { const char *header, *snapshot; };
static struct held held_here(const struct membership *from, const struct membership_shape *shape, int i,
                             const struct membership *now) {
    struct elastic_job *job = elastic_job();
    const struct membership_snapshot *x = membership_find(&job->store, from->number, job->back);
    bool copy;
    bool mine = membership_holder(from, shape, i, now, &copy) == now->slot[comm_world_rank()];
    if (!mine || !x) return (struct held){NULL, NULL};
    int k = x >= job->store.kept[1].of, at = (int)(x - job->store.kept[k].of);
    const struct generation *g = job->of[k];
    return copy ? (struct held){g->left_header, g->left[at]} : (struct held){g->own_header, g->own[at]};
}

/* Broadcast the text of rank `root`; the caller frees *out. */
static enum status share_text(const char *mine, int root, char **out) {
    int64_t n = mine ? (int64_t)strlen(mine) + 1 : 0;
    TRY(comm_broadcast(group_world(), &n, (int64_t)sizeof n, UINT8, root));
    *out = malloc((size_t)n + 1);
    TRY(fail_agree(group_world(), *out ? OK : FAIL(E_MEMORY, "no memory for a header of %lld bytes", (long long)n)));
    if (mine) memcpy(*out, mine, (size_t)n);
    (*out)[n] = 0;
    return comm_broadcast(group_world(), *out, n, UINT8, root);
}

/* Broadcast the manifest, with which every snapshot begins, and the header of each shard. */
static enum status share_texts(const struct membership_shape *shape, const struct membership *now,
                               const struct membership *from,
                               struct snapshot_set *set, int *holder, char **manifest) {
    bool copy;
    for (int i = 0; i < from->n; i++) {
        struct held here = held_here(from, shape, i, now);
        holder[i] = membership_place(now, membership_holder(from, shape, i, now, &copy));
        set->here[i] = here.snapshot;
        if (i == 0) TRY(share_text(here.snapshot, holder[i], manifest));
        TRY(share_text(here.header, holder[i], &set->header[i]));
    }
    return OK;
}

enum status elastic_go_on(struct run *r) {
    struct membership now, from;
    char *manifest = NULL;
    const struct membership_shape shape = plan_membership_shape(&r->plan);
    int holder[MEMBERSHIP_MOST_RANKS];
    comm_epoch_members(&now, &from);
    struct snapshot_set set = {.n = from.n, .holder = holder, .window = SNAPSHOT_WINDOW};
    set.header = calloc((size_t)from.n, sizeof *set.header);
    set.here = calloc((size_t)from.n, sizeof *set.here);
    enum status status = set.header && set.here ? OK : FAIL(E_MEMORY, "no memory for %d headers", from.n);
    status = fail_agree(group_world(), status);
    if (status == OK) status = share_texts(&shape, &now, &from, &set, holder, &manifest);
    set.manifest = manifest;
    if (status == OK) status = snapshot_load(r, &set);
    for (int i = 0; i < from.n && set.header; i++) free(set.header[i]);
    free(set.header);
    free((void *)set.here);
    free(manifest);
    return status;
}
