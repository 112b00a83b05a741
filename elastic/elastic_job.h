/* What a process keeps for the others, beyond its runs. Private to this folder. */
#ifndef TRIVIUM_ELASTIC_ELASTIC_JOB_H
#define TRIVIUM_ELASTIC_ELASTIC_JOB_H

#include "elastic/elastic.h"
#include "lib/comm/comm_request.h"
#include "lib/comm/membership/membership.h"
#include "lib/run/run.h"

/* The snapshots of one run: of two steps, its own and its left neighbor's. They lie in the run's memory (role save),
 * which is handed over when the run ends and another one goes on. */
struct generation {
    int left_rank, right_rank;           /* of the mesh */
    int64_t own_bytes, left_bytes;
    char *own[2], *left[2];              /* by their place in epoch_store.kept.of */
    char *own_header, *left_header;
    struct epoch_snapshot *coming;       /* its left neighbor's is on its way; NULL: nothing is */
    struct comm_request sending, receiving;
    struct arena handed_over;            /* base NULL: the run is there */
    bool goes_on;                        /* its run ends, and another one goes on */
};

/* One per process, which is in one job. of[k]: the memory that store.kept[k] describes. */
struct elastic_job {
    enum epoch_state state;
    int64_t back;                        /* the step that all go back to, since they have reported */
    struct epoch_store store;
    struct generation *of[2];
};
struct elastic_job *elastic_job(void);

/** What to do, now that this has happened. @collective{none} */
enum epoch_action elastic_happens(enum epoch_event);
/** The copy that is on its way is here: the snapshot counts. @collective{left and right neighbor}
 *  @errors E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_finish(struct generation *);
/** Nothing of it is needed any more. */
void elastic_drop(int k);
/* ---- what the technique's keeper is made of (lib/run/technique.h); nothing where the technique is off ---- */
/** Before the first step: keep the state, and say that this rank can be lost (comm_epoch_say_whole).
 *  @collective{mesh} @errors E_MEMORY, E_DEVICE, E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_begin(struct run *);
/** Is the state after step n_step to be kept? Pure. @collective{none} */
bool elastic_is_due(const struct run *, int64_t n_step);
/** Keep the state after the last finished step; its copy is on its way when this returns.
 *  @collective{mesh} @errors as elastic_begin */
enum status elastic_keep(struct run *);
/** A planned change ends this epoch, on all ranks: keep the state after the last finished step, and wait for its
 *  copies. @return E_EPOCH  @collective{mesh} @errors as elastic_begin */
enum status elastic_rest(struct run *);
/** Before the run is destroyed: what it keeps outlives it. @collective{none} */
void elastic_leave(struct run *);
/** Can all go back to a step that they have in memory, at least as new as the one on disk (0: none is there)?
 *  *from_memory: yes, with elastic_go_on; else from disk.
 *  @collective{world} @errors E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_report(const struct plan *, int64_t on_disk, bool *from_memory);
/** The new run takes that state; its next step is the one after it.
 *  @collective{world} @errors of snapshot_load */
enum status elastic_go_on(struct run *);

/** The run's generation; NULL: the technique is off. */
struct generation *elastic_of(const struct run *);

#endif
