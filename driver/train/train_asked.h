/* What a process was asked to train: its options and its data are read once, however many epochs follow. A file that
 * is edited, replaced or removed meanwhile is the next job's. */
#ifndef TRIVIUM_DRIVER_TRAIN_ASKED_H
#define TRIVIUM_DRIVER_TRAIN_ASKED_H

#include "driver/setup.h"

/* Hashes of a process's options and files, by which ranks compare them. files: the small ones that options name
 * (kept.h). program: 0 in epoch 0, in which hosts may have builds of their own. takes_part: it has been compared in
 * an earlier epoch. */
struct train_identity { uint64_t options, data, program; int64_t takes_part; uint64_t files; };

/* argc, argv: the words after `train`, borrowed. setup: read and not settled, once is_read; files: as above. */
struct train_asked { int argc; char **argv; struct setup setup; bool is_read, takes_part; uint64_t files; };

/** A spare, before it waits, reads the files that the first ranks read at their start.
 *  One that cannot withdraws (comm_withdraw), and does not return.  @collective{none} */
void train_asked_early(struct train_asked *);
/** The same for the first ranks. Then all compare what they have read: in epoch 0 the data, which each host may have
 *  for itself; later, options, data and build of those that are new with those of the others. A new one that has
 *  others withdraws.
 *  @collective{world} @errors in epoch 0 those of setup_read and E_DATA, agreed on; E_DATA: the data were written to;
 *  E_EPOCH, E_COMM, E_TIMEOUT */
enum status train_asked_agree(struct train_asked *);

/** Why rank `me` of n cannot take part with the others; NULL: it can. In epoch 0 rank 0's count, later those of the
 *  ranks that take part already. Pure. @collective{none} */
const char *train_identity_differs(const struct train_identity *all, int n, int me);

#endif
