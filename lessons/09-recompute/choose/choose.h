/* Choose the values to drop after forward: the contract of this exercise. The theory is in lesson 09, "What a byte
 * costs" and "The square root". */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* A value that forward computes and backward reads. A kept value takes `bytes` from forward to backward. A dropped
 * value is recomputed with `flops`, which do not depend on the other dropped values. flops INFINITY: the value cannot
 * be recomputed, and must be kept. */
struct candidate { const char *name; int64_t bytes; double flops; };

/** drop[i] = whether to drop values[i]. The kept values have at most `budget` bytes together, and no other such choice
 *  takes fewer flops. Every `bytes` is a positive multiple of `unit`; budget may be any number. n is a few hundred, so
 *  2^n choices are too many to try; all bytes together are a few thousand units.
 *  @errors E_CONFIG, with both numbers, if the values that must be kept exceed the budget (drop is then unchanged);
 *  E_MEMORY  @collective{none} */
enum status choose_values(const struct candidate *values, int n, int64_t unit, int64_t budget, bool *drop);

/** Layers form groups of N (`--recompute uniform:N`). A group keeps only its input, and is recomputed as a whole before
 *  its backward. A microbatch then keeps `input` bytes per group (the last group may have fewer layers), and
 *  `in_flight` microbatches wait at a time. During a group's backward its layers' saved tensors take N x `saved` bytes.
 *  *group = the N from 1 to n_layers with the least bytes; of two equal ones the smaller.  @collective{none} */
enum status choose_group(int n_layers, int in_flight, int64_t input, int64_t saved, int *group);
