/* Elastic training: every rank's state in two memories, and going on from there when ranks have died. See elastic.c. */
#ifndef TRIVIUM_ELASTIC_ELASTIC_H
#define TRIVIUM_ELASTIC_ELASTIC_H

#include "lib/comm/membership/membership.h"
#include "lib/run/technique.h"

extern const struct technique technique_elastic;

/* every 0: off. replace: ranks that are slow (driver/train/train_straggler.c). */
struct elastic_options { int64_t every; int replace; };
static inline struct elastic_options *elastic_options(const struct plan *p) {
    return plan_own(p, &technique_elastic.options);
}

/** What may be left out of an epoch: replicas, of tp cp x pp ranks. Pure. @collective{none} */
struct epoch_shape elastic_shape(const struct plan *);

/* ---- while it runs; nothing where it is off ---- */
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

/* ---- when an epoch has opened (comm_epoch_enter) ---- */
/** Before the run is destroyed: what it keeps outlives it. @collective{none} */
void elastic_leave(struct run *);
/** Can all go back to a step that they have in memory, at least as new as the one on disk (0: none is there)?
 *  *from_memory: yes, with elastic_go_on; else from disk.
 *  @collective{world} @errors E_COMM, E_TIMEOUT, E_EPOCH */
enum status elastic_report(const struct plan *, int64_t on_disk, bool *from_memory);
/** The new run takes that state; its next step is the one after it.
 *  @collective{world} @errors of snapshot_load */
enum status elastic_go_on(struct run *);

#endif
