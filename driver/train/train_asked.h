/* The request of a process: its options and its data are read once, for all epochs. A file that is edited, replaced or
 * removed meanwhile changes the next job only. */
#pragma once

#include "driver/setup.h"

/* Hashes of a process's options and files, by which ranks compare them. files: the small ones that options name
 * (kept.h). program: 0 in epoch 0, in which hosts may have builds of their own. takes_part: it has been compared in
 * an earlier epoch. */
struct train_identity { uint64_t options, data, program; int64_t takes_part; uint64_t files; };

/* argc, argv: the words after `train`, borrowed. setup: valid once is_read, not settled; files: as above. */
struct train_asked { int argc; char **argv; struct setup setup; bool is_read, takes_part; uint64_t files; };

/** A spare, before it waits, reads the files that the first ranks read at their start. If it cannot, it withdraws
 *  (comm_withdraw), and this does not return.  @collective{none} */
void train_asked_early(struct train_asked *);
/** The same for the first ranks. Then all compare: in epoch 0 the data, of which each host may have a copy; later the
 *  options, data and build of new ranks with those of the others. A new rank whose own differ withdraws.
 *  @collective{world} @errors in epoch 0 those of setup_read and E_DATA, agreed on; E_DATA: the data were written to;
 *  E_EPOCH, E_COMM, E_TIMEOUT */
enum status train_asked_agree(struct train_asked *);

/** Why rank `me` of n cannot take part with the others; NULL: it can. It is compared with rank 0 in epoch 0, later with
 *  the ranks that already take part. Pure. @collective{none} */
const char *train_identity_differs(const struct train_identity *all, int n, int me);
