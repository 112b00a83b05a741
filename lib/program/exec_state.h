/* Declarations shared by the executor's files: the interpreter (exec.c), transfers between stages (exec_transfer.c),
 * fixed sums (exec_sums.c), times and spans (exec_record.c). Private to them. */
#pragma once

#include "lib/program/exec.h"

/* The action that is running, and the frame of its microbatch. */
struct place { int chunk, frame; const struct action *action; bool training; };

/* Address of a value of the place's chunk; NULL for NO_VALUE. */
void *exec_value(const struct exec *, struct place, int value);

/* ---- exec_transfer.c ---- */
/* Run a send or a receive. recorded: the action's span, which counts the bytes, or NULL.
 * @collective{pp: its other end takes part} @errors E_TIMEOUT, E_COMM, E_DEVICE */
enum status exec_transfer(struct exec *, const struct action *, struct place, struct span *recorded);
/* Wait until all sends have left. @collective{pp: its other end takes part} @errors E_TIMEOUT, E_COMM */
enum status exec_finish_sends(struct exec *);

/* ---- exec_sums.c ---- */
/* Run a row of weight gradients with fixed sums. @collective{the axes that cut the tokens} @errors those of sums_run */
enum status exec_weight_sums(const struct exec *, struct place, const struct row *, const struct call *);

/* ---- exec_record.c ---- */
/* Open the action's span. @return the span, which the caller closes; -1: nothing is recorded */
int record_action(struct exec *, const struct action *, int index);
/* Called before and after a row, or a pair of rows that runs as one kernel. @errors E_DEVICE */
struct timed_row { double start_s; int span; };
enum status record_row_start(struct exec *, struct place, const struct tape *, int row, struct timed_row *);
enum status record_row_end(struct exec *, struct place, const struct tape *, int row, const struct timed_row *);
