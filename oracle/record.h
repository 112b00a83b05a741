/* Records a run: the tensors and numbers of a step, under their published names.
 *
 *   .act         a module's output              after its forward row, a microbatch at a time
 *   .act_grad    the loss's gradient of it      after the backward row of its first reader, which is the last of its
 *                                               readers' to run
 *   .grad        a weight's gradient            at EVENT_GRAD_NORM: summed over ranks, not yet clipped; own elements
 *   .param .moment1 .moment2                    after the update; own elements
 *   loss, grad_norm, clip_factor, lr            after the step
 *
 * Axis 0 counts the samples of the step's global batch. So microbatches and replicas are boxes along axis 0, as tp and
 * cp are along others, and a recording does not depend on the layout. */
#pragma once

#include "lib/run/run.h"
#include "oracle/calls.h"
#include "oracle/kept.h"
#include <jansson.h>

/* The recorded part of a step; each depth includes those before it. LAYERS: outputs of blocks and of the last norm.
 * OPS: outputs of all modules that have a name. */
enum record_depth { RECORD_SCALARS, RECORD_PARAMS, RECORD_LAYERS, RECORD_OPS };
#define RECORD_DEPTHS "scalars|params|layers|ops"

/* Random roundings: every result of a row is multiplied by 1 + u eps, u uniform in [-1, 1] from a counter of seed, row
 * and element. eps 0: none. Source: Parker 1997 (Monte Carlo arithmetic). */
struct shaking { double eps; uint64_t seed; };

struct recorder {
    struct run *run;
    enum record_depth depth;
    struct shaking shaking;
    struct kept kept;                    /* of the current step, or of the last one */
    struct call_log calls;
    const struct published **of_slot, **of_param;    /* NULL: not recorded */
    int *slot_layer, *param_layer, *first_reader;    /* the step of the program that reads a slot first; -1: none */
    uint64_t n_rows;
};

/** Record every step of a created run, from the next one on, until recorder_detach, which must precede run_destroy. The
 *  run's rows are those of its plan; fused rows are recorded as separate rows.
 *  @errors E_CONFIG: a device, schedule or model that cannot be recorded; E_MEMORY  @collective{none} */
enum status recorder_attach(struct recorder *, struct run *, enum record_depth, struct shaking);
/** Call before each step. Drops the last step's numbers. */
void recorder_begin(struct recorder *);
/** Call after each step. Adds its numbers, weights and moments. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status recorder_end(struct recorder *);
void recorder_detach(struct recorder *);

/** Has each weight of the model a published name?
 *  @errors E_CONFIG: the first that has none; those of the model's build  @collective{none} */
enum status record_check_names(const struct plan *);
/** *out: a new array of {"name", "phase"}: the tensors of a step, in the order in which a serial run of the plan makes
 *  them.  @errors those of the model's build  @collective{none} */
enum status record_order(const struct plan *, enum record_depth, json_t **out);
