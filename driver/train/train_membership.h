/* A training job whose ranks change: the setup of each epoch. See train_membership.c. */
#pragma once

#include "driver/train/train_asked.h"

/** This epoch's setup: the request, with the present number of replicas. *from_memory: the state comes from memory
 *  (train_take_snapshots), else from the last checkpoint of this job, if there is one. The caller settles *out
 *  (setup_settle).
 *  @collective{world} @errors E_EPOCH; E_MEMORY, E_COMM, E_TIMEOUT */
enum status train_setup_of_epoch(const struct train_asked *, struct setup *out, bool *from_memory);

/** Note that every rank has finished a step: the metrics have rows of this job. @collective{none} */
void train_note_step(void);

/** After E_EPOCH, when the old epoch's state is freed: enter the newest epoch that all its members enter.
 *  @collective{the members of the new epoch} @errors those of comm_epoch_enter but E_EPOCH */
enum status train_enter_epoch(void);
