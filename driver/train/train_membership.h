/* A training job whose ranks change: the setup of each epoch. See train_membership.c. */
#pragma once

#include "driver/train/train_asked.h"

/** This epoch's setup: the request, with the present number of replicas. *from_memory: the state comes from memory
 *  (train_take_snapshots), and not from this job's last checkpoint or its start. The caller settles *out
 *  (setup_settle).
 *  @collective{world} @errors E_EPOCH; E_MEMORY, E_COMM, E_TIMEOUT */
enum status train_setup_of_epoch(const struct train_asked *, struct setup *out, bool *from_memory);

/** Record that this process has finished a step, so that the metrics have rows of this job. @collective{none} */
void train_note_step(void);

/** Call after E_EPOCH, when the old epoch's state is freed: enter the newest epoch that all its members enter.
 *  @collective{the members of the new epoch} @errors those of comm_epoch_enter except E_EPOCH */
enum status train_enter_epoch(void);
