/* The state that lower*.c share while a chunk is lowered. Private to lower*.c. */
#pragma once

#include "lib/program/lower.h"

enum { CLOSED = NO_VALUE };   /* the state of a param without an open window */

/* uses[tape][block][param]: does the block use the param? next[tape][block]: the block that comes next. slot_tape,
 * slot_block: after forward, the first tape that reads the slot, and the block that reads it there; -1: none. */
struct lookahead { bool *uses[N_TAPES]; int *next[N_TAPES], *slot_tape, *slot_block; };

enum copy_state { COPY_NONE, COPY_STARTED, COPY_DONE };

struct lower {
    const struct program *p;
    struct chunk *k;
    int *activation, *replayed, *gradient;       /* by slot: index of the value that holds it now, or NO_VALUE */
    int *producer;                               /* by slot: index of the step that makes it, or -1 */
    int *weight_window[N_TAPES], *grad_window[N_TAPES];  /* by param: CLOSED, RESIDENT or a value */
    int *weight_owner[N_TAPES];                  /* by param: the block for which its window is open */
    bool *announced[N_TAPES];                    /* by param: PARAM_NEEDED has been emitted for weight_owner */
    int open_block[N_TAPES];                     /* the block whose rows are being emitted */
    struct lookahead *recorded;                  /* the first pass fills it */
    const struct lookahead *ahead;               /* the second pass reads it */
    int *steps, n_steps;                         /* the chunk's steps, in order */
    /* By slot (lower_park.c): the last block whose forward reads it; its value in host memory, and its new value on the
     * device, or NO_VALUE; the state of its copy. */
    int *last_block, *parked, *unparked;
    enum copy_state *copy;
};

/* A table of n entries, each `initial`, which the caller frees; NULL: no memory. */
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
/* Open the param's window, if it is closed: the next row of the open block uses the param. */
void lower_weight_open(struct lower *, enum tape_kind, int param);
/* The operand in which row r of tape index `at` adds up its i-th param's gradient. */
int lower_grad_open(struct lower *, enum tape_kind, int param, struct row *r, int i, int at);

/* ---- lower_park.c ---- */
bool lower_park_init(struct lower *);            /* false: no memory */
void lower_park_fini(struct lower *);
/* Find the block that reads each slot last. Called once the slots' producers are set. */
void lower_park_begin(struct lower *);
/* At the end of a block's forward: start to copy the slots that no later block of forward reads to host memory. */
void lower_park(struct lower *, int block);
/* At the end of forward: wait for all copies in flight. */
void lower_park_end(struct lower *);
/* Before backward reaches a block: start to copy the slots that it reads back to the device. */
void lower_unpark(struct lower *, enum tape_kind, int block);
/* Called before a row of backward reads a parked slot. @return the slot's new value on the device */
int lower_unparked(struct lower *, int slot, enum tape_kind);
/* For the first pass: record that backward reads the slot. */
void lower_note_read(struct lower *, int slot, enum tape_kind);

/* Allocate the tables for a program's blocks; false: no memory. */
bool lookahead_init(struct lookahead *, const struct program *);
void lookahead_fini(struct lookahead *);
