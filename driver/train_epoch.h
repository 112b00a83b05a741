/* A training job whose ranks change: what each epoch is started with. See train_epoch.c. */
#ifndef TRIVIUM_DRIVER_TRAIN_EPOCH_H
#define TRIVIUM_DRIVER_TRAIN_EPOCH_H

#include "lib/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The words of train: the user's, or those of this epoch, which are owned. */
struct train_words { int n; char **at; char **owned; char dp[24]; char save[1024]; };

/** The words for this epoch, from the user's: with the number of replicas that there are now; and whether the state is
 *  to come from memory (train_take_snapshots), else from the last checkpoint of this job, if there is one. In epoch 0:
 *  the user's.
 *  @collective{world} @errors E_EPOCH; E_MEMORY, E_COMM, E_TIMEOUT; of the options, which all ranks have alike */
enum status train_words_of_epoch(int argc, char **argv, struct train_words *out, bool *from_memory);
void train_words_free(struct train_words *);

/** A step is done, on every rank: there are rows of this job. @collective{none} */
void train_note_step(void);

/** After E_EPOCH, when nothing of the old epoch is left: into the newest one that all its members enter.
 *  @collective{the members of the new epoch} @errors those of comm_epoch_enter but E_EPOCH */
enum status train_enter_epoch(void);

#ifdef __cplusplus
}
#endif
#endif
