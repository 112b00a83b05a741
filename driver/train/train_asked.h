/* The request of a process: its options and data, which are read once for all epochs. A file that is edited, replaced
 * or removed during the job affects later jobs only. */
#pragma once

#include "driver/setup.h"

/* Hashes of a process's options and files, which ranks compare. files: small files that options name (kept.h). program:
 * the build; 0 in epoch 0, because hosts may have different builds. takes_part: the process has passed the comparison
 * of an earlier epoch. level: as level_chosen, or "". */
struct train_identity { uint64_t options, data, program; int64_t takes_part; uint64_t files; char level[16]; };

/* argc, argv: the words after `train`, borrowed. setup: valid if is_read, not settled. files: as in train_identity. */
struct train_asked { int argc; char **argv; struct setup setup; bool is_read, takes_part; uint64_t files; };

/** A spare calls this before it waits: read the files that the first ranks read at their start. On failure withdraw
 *  (comm_withdraw), and do not return.  @collective{none} */
void train_asked_early(struct train_asked *);
/** Read the files if they are not read yet. Then compare with the other ranks: in epoch 0 options, data and files,
 *  because each host may have a copy, and levels of x86-64; later also the build of new ranks. A new rank that differs
 *  withdraws.
 *  @collective{world} @errors in epoch 0 those of setup_read, E_DATA and E_CONFIG, agreed on; later E_DATA: the
 *  data file has changed; E_EPOCH, E_COMM, E_TIMEOUT */
enum status train_asked_agree(struct train_asked *);

/** Why rank `me` of n cannot take part; NULL: it can. The rank is compared with rank 0 in epoch 0, later with ranks
 *  that already take part. Pure. @collective{none} */
const char *train_identity_differs(const struct train_identity *all, int n, int me);
