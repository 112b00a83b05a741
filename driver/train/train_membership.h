/* A training job whose ranks change: what each epoch is started with. See train_membership.c. */
#ifndef TRIVIUM_DRIVER_TRAIN_MEMBERSHIP_H
#define TRIVIUM_DRIVER_TRAIN_MEMBERSHIP_H

#include "driver/train/train_asked.h"

/** What this epoch is set up with: what was asked for, with the number of replicas that there are now; and whether the
 *  state comes from memory (train_take_snapshots), else from the last checkpoint of this job, if there is one. The
 *  caller settles *out (setup_settle).
 *  @collective{world} @errors E_EPOCH; E_MEMORY, E_COMM, E_TIMEOUT */
enum status train_setup_of_epoch(const struct train_asked *, struct setup *out, bool *from_memory);

/** A step is done, on every rank: there are rows of this job. @collective{none} */
void train_note_step(void);

/** After E_EPOCH, when nothing of the old epoch is left: into the newest one that all its members enter.
 *  @collective{the members of the new epoch} @errors those of comm_epoch_enter but E_EPOCH */
enum status train_enter_epoch(void);

#endif
