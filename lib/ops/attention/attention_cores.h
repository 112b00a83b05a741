/* Whose kernels blocked attention has on a GPU, in both directions: what the plans say that cuDNN has made, not what it
 * might do. For the first lines of a run, before its first step. */
#pragma once

#include "lib/ops/attention/attention_pair.h"

/* Counts of one direction: */
struct attention_core_count {
    int cudnn, own;            /* pairs that cuDNN runs, and our own kernels */
    uint64_t engines;          /* of cuDNN: bit i is engine i */
    const char *why;           /* why the first of `own` is not cuDNN's; NULL: our own kernels were asked for */
};
struct attention_cores { struct attention_core_count row[2]; };   /* forward, backward; zero at first */

/** Count a pair, for which the device's kernels make their plan now. The pair has a device, and no memory.
 *  @errors E_CONFIG: cuDNN was asked for by name and has no plan  @collective{none} */
enum status attention_cores_add(struct attention_cores *, const struct attention_pair *, bool backward);

/** In words: "cuDNN 9.19.0 (forward engine 6, backward engine 6)"; "own kernels (this build has no cuDNN)". Borrowed,
 *  until the next call. */
const char *attention_cores_text(const struct attention_cores *);
