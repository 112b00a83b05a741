/* A process's snapshots, which outlive its runs. Private to this folder. */
#pragma once

#include "elastic/elastic.h"
#include "lib/comm/comm_request.h"
#include "lib/comm/membership/membership.h"
#include "lib/run/run.h"

/* The snapshots of one run, of two steps: this rank's own, and its left neighbor's. They lie in the run's memory (role
 * save), which is handed over when the run ends and another run continues. */
struct generation {
    int left_rank, right_rank;           /* neighbors, as ranks of the mesh */
    int64_t own_bytes, left_bytes;
    char *own[2], *left[2];              /* indexed as membership_store.kept.of */
    char *own_header, *left_header;
    struct membership_snapshot *coming;  /* the snapshot whose copies are in flight; NULL: none */
    struct comm_request sending, receiving;
    struct arena handed_over;            /* the ended run's memory; base NULL: the run still has it */
    bool goes_on;                        /* elastic_leave was called: another run continues from these snapshots */
};

/* One per process. of[k]: the generation that store.kept[k] describes. */
struct elastic_job {
    enum member_state state;
    int64_t back;                        /* the step that all ranks go back to, after all have reported */
    struct membership_store store;
    struct generation *of[2];
};
struct elastic_job *elastic_job(void);

/** Tell the state machine of an event. @return the action to take. @collective{none} */
enum member_action elastic_happens(enum member_event);
/** Wait for the copies in flight; then mark their snapshot as complete. @collective{left and right neighbor}
 *  @errors E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_finish(struct generation *);
/** Free generation k. */
void elastic_drop(int k);
/* ---- the technique's keeper (lib/run/technique.h); if the technique is off, these functions do nothing ---- */
/** Before the first step: keep the state, and report that this rank may be lost (comm_epoch_commit).
 *  @collective{mesh} @errors E_MEMORY, E_DEVICE, E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_begin(struct run *);
/** Must the state after step n_step be kept? Pure. @collective{none} */
bool elastic_is_due(const struct run *, int64_t n_step);
/** Keep the state after the last finished step; the copy is in flight when this function returns.
 *  @collective{mesh} @errors as elastic_begin */
enum status elastic_keep(struct run *);
/** A planned change ends this epoch on all ranks: keep the state after the last finished step, wait for its copies and
 *  then for the next epoch. @return E_EPOCH  @collective{mesh} @errors as elastic_begin */
enum status elastic_drain(struct run *);
/** Before the run is destroyed: take over the memory of its snapshots. @collective{none} */
void elastic_leave(struct run *);
/** Can all ranks go back to a step in memory that is at least as new as the one on disk (0: there is none)?
 *  *from_memory: true: yes, by elastic_go_on; false: read the checkpoint.
 *  @collective{world} @errors E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_report(const struct plan *, int64_t on_disk, bool *from_memory);
/** Load the state of step `back` into the new run, which continues with the next step.
 *  @collective{world} @errors of snapshot_load */
enum status elastic_go_on(struct run *);

/** The run's generation; NULL: the technique is off. */
struct generation *elastic_of(const struct run *);
