/* What a process was asked to train: its options and its data are read once, however many epochs follow. A file that
 * is edited, replaced or removed meanwhile is the next job's. */
#ifndef TRIVIUM_DRIVER_TRAIN_ASKED_H
#define TRIVIUM_DRIVER_TRAIN_ASKED_H

#include "driver/setup.h"

#ifdef __cplusplus
extern "C" {
#endif

/* argc, argv: the words after `train`, borrowed. setup: read and not settled, once is_read. */
struct train_asked { int argc; char **argv; struct setup setup; bool is_read; };

/** Of a spare, before it waits: read now what the first ranks read now.
 *  One that cannot withdraws (comm_withdraw), and does not return.  @collective{none} */
void train_asked_early(struct train_asked *);
/** The same for the first ranks; nothing to do in later epochs.
 *  @collective{world} @errors in epoch 0 those of setup_read, agreed on; E_EPOCH, E_COMM, E_TIMEOUT */
enum status train_asked_agree(struct train_asked *);

#ifdef __cplusplus
}
#endif
#endif
