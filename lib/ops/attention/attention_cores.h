/* Which kernels run blocked attention on a GPU, forward and backward, by the plans that cuDNN has made. A run prints
 * this before its first step. */
#pragma once

#include "lib/ops/attention/attention_pair.h"

/* Counts of one direction: */
struct attention_core_count {
    int cudnn, own;            /* pairs that cuDNN runs; pairs that our own kernels run */
    uint64_t engines;          /* bit i: cuDNN's engine i runs a pair */
    const char *why;           /* why our kernels run the first pair of `own`; NULL: they were asked for */
};
struct attention_cores { struct attention_core_count row[2]; };   /* [0] forward, [1] backward; zero at first */

/** Count a pair; the device's kernels make their plan for it now. The pair has a device, and no memory. @errors
 *  E_CONFIG: cuDNN was asked for by name and has no plan @collective{none} */
enum status attention_cores_add(struct attention_cores *, const struct attention_pair *, bool backward);

/** In words: "cuDNN 9.19.0 (forward engine 6, backward engine 6)"; "own kernels (this build has no cuDNN)". Borrowed,
 *  until the next call. */
const char *attention_cores_text(const struct attention_cores *);
