/* The static memory plan: every byte of every role gets its place before the first step.
 *
 *   act    [ scratch | frames ]   scratch: values of one action; frames: values that a microbatch keeps from its F to
 *                                 its B (or W), packed over the schedule's time line
 *   work   [ the run's numbers | scratch ]
 *   comm   [ scratch (gathered params) | rings | techniques' buffers ]
 *   param, grad, optim            one place for each param
 *   act, in host memory           frames of parked values, packed on the same time line
 *
 * The peak of a role is the end of its highest byte. Arenas are allocated with these numbers, `show memory` prints
 * them, and the high-water mark is compared with them. */
#pragma once

#include "lib/program/schedule.h"

struct memory_plan {
    int64_t bytes[N_TIERS][N_ROLES]; /* planned peak by tier and role; host and disk hold offloaded arrays */
    int64_t scratch_bytes[N_ROLES];  /* the part of bytes[TIER_DEVICE] that is scratch */
    int64_t scratch_offset[N_ROLES]; /* start of a role's scratch: 0; in role work the end of run_bytes */
    int64_t frames_floor;            /* most frame bytes alive at once */
    int n_chunks, n_microbatches;    /* n_microbatches: number of frames that microbatches use in turns */
    int64_t *frame_offset;           /* [class][chunk][microbatch] in the act arena; -1: no such frame */
    /* In role comm: a ring of staging buffers for each channel on which this rank sends. Each buffer has room for every
     * stream. */
    struct stage_ring { int slots; int64_t offset, bytes, stream[MAX_STREAMS]; } ring[N_CHANNELS];
    int64_t technique_offset;        /* in role comm: start of the techniques' buffers */
    int64_t run_bytes;               /* in role work: size of the run's own numbers, which come first */
};

/** First half of the plan: place the params (as many versions as the schedule keeps), gradients and optimizer states,
 *  and start *out. @collective{none} */
void memory_plan_params(struct program *, const struct schedule *, struct memory_plan *out);
/** Second half of the plan: place everything else. technique_comm_bytes: the techniques' part of the comm arena, which
 *  depends on the first half; run_work_bytes: the run's part of the work arena.
 *  @errors E_MEMORY  @collective{none} */
enum status memory_plan_rest(const struct program *, const struct chunk *chunks, const struct schedule *,
                             int64_t technique_comm_bytes, int64_t run_work_bytes, struct memory_plan *);
void memory_plan_fini(struct memory_plan *);

/** Bytes of the host copy (role "save") of this rank's part of the program. A checkpoint is written from this copy
 *  while training goes on. The techniques' arrays (struct bill) are at its end. */
int64_t memory_save_bytes(const struct program *, int64_t technique_save_bytes);

/** The offset, in bytes, of a frame in the act arena; -1: the microbatch has no such frame in this chunk. */
int64_t memory_frame(const struct memory_plan *, enum frame_class, int chunk, int microbatch);
/** The first microbatch that has a frame in this chunk. */
int memory_first_microbatch(const struct memory_plan *, int chunk);
