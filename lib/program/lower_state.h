/* What lower.c and lower_windows.c share while a chunk is lowered. Private to lower*.c. */
#ifndef TRIVIUM_PROGRAM_LOWER_STATE_H
#define TRIVIUM_PROGRAM_LOWER_STATE_H

#include "lib/program/lower.h"

enum { CLOSED = NO_VALUE };   /* no window is open for the param */

/* uses[tape][block][param]: the params that each block opens; next[tape][block]: the order of the blocks.
 * By slot: the first tape after forward that reads it, and the block that does; -1: none. */
struct lookahead { bool *uses[N_TAPES]; int *next[N_TAPES], *slot_tape, *slot_block; };

enum copy_state { COPY_NONE, COPY_STARTED, COPY_DONE };

struct lower {
    const struct program *p;
    struct chunk *k;
    int *activation, *replayed, *gradient;       /* by slot: the value that holds it now, or NO_VALUE */
    int *producer;                               /* by slot: the step that makes it, or -1 */
    int *weight_window[N_TAPES], *grad_window[N_TAPES];  /* by param: CLOSED, RESIDENT or a value */
    int *weight_owner[N_TAPES];                  /* by param: the block that its window is open for */
    bool *announced[N_TAPES];                    /* by param: PARAM_NEEDED has been emitted for that block */
    int open_block[N_TAPES];                     /* which block is being emitted */
    struct lookahead *recorded;                  /* first pass: filled */
    const struct lookahead *ahead;               /* second pass: followed */
    int *steps, n_steps;                         /* the chunk's steps, in order */
    /* By slot, lower_park.c: the last block whose forward reads it; its value in host memory, and the one back on the
     * device, or NO_VALUE; the state of its copy. */
    int *last_block, *parked, *unparked;
    enum copy_state *copy;
};

/* n entries of `initial`, to be freed; NULL without memory. */
int *lower_table(int n, int initial);

/* lower_value: a new value, born at this row. lower_touch: this row uses the value, which lives at least until here.
 * lower_row: a new row at the end of the tape. */
int lower_value(struct lower *, const char *name, int64_t bytes, enum role, enum tape_kind, int row);
int lower_touch(struct lower *, int value, enum tape_kind, int row);
struct row *lower_row(struct lower *, enum tape_kind, enum row_kind, int id);

/* ---- lower_windows.c ---- */
/* Begin this block's rows: close the windows of the block before. */
void lower_window_enter(struct lower *, enum tape_kind, int block);
/* End the block: close the windows of its gradients, and of weights that were not opened for the next block. */
void lower_windows_close(struct lower *, enum tape_kind);
/* A row of the open block is about to use the param. */
void lower_weight_open(struct lower *, enum tape_kind, int param);
/* The operand in which a param's gradient is added up, for operand i of row r at `at`. */
int lower_grad_open(struct lower *, enum tape_kind, int param, struct row *r, int i, int at);

/* ---- lower_park.c ---- */
bool lower_park_init(struct lower *);            /* false: no memory */
void lower_park_fini(struct lower *);
/* Once producers are known: find the block that reads each slot last. */
void lower_park_begin(struct lower *);
/* Forward leaves this block: slots without a later reader there go to host memory. */
void lower_park(struct lower *, int block);
/* Forward ends: no copy is in flight any more. */
void lower_park_end(struct lower *);
/* Before backward reaches this block: start the copies of the slots that it reads. */
void lower_unpark(struct lower *, enum tape_kind, int block);
/* A row of backward is about to read the slot. @return its value there */
int lower_unparked(struct lower *, int slot, enum tape_kind);
/* The same in the pass that records: the slot is read. */
void lower_note_read(struct lower *, int slot, enum tape_kind);

/* Allocate the tables for a program's blocks; false: no memory. */
bool lookahead_init(struct lookahead *, const struct program *);
void lookahead_fini(struct lookahead *);

#endif
