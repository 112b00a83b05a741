/* What to drop after forward: the contract of this exercise. The theory is in lesson 09, "What a byte costs" and "The
 * square root". */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* A value that forward makes and backward reads. It is kept, which takes `bytes` from forward to backward; or it is
 * dropped, and made again, which takes `flops` whatever else is dropped. INFINITY: it cannot be recomputed, and must be
 * kept. */
struct candidate { const char *name; int64_t bytes; double flops; };

/** drop[i] = whether to drop values[i]: what is kept has at most `budget` bytes together, and no other choice of which
 *  that is true takes fewer flops. Every `bytes` is a multiple of `unit` and at least that; budget may be any number. n
 *  is a few hundred, so trying all 2^n is out of the question; all bytes together are a few thousand units.
 *  @errors E_CONFIG, with both numbers, if what must be kept is more than the budget (drop is then left as it was);
 *  E_MEMORY  @collective{none} */
enum status choose_values(const struct candidate *values, int n, int64_t unit, int64_t budget, bool *drop);

/** Layers in groups of N, of which each keeps its input only, and is recomputed as a whole before its backward
 *  (`--recompute uniform:N`). A microbatch then keeps `input` bytes per group, the last of which may be smaller, and
 *  `in_flight` microbatches wait at a time. While a group's backward runs, all that its layers save is there once: N x
 *  `saved`. *group = the N from 1 to n_layers with the least bytes; of two that are equal the smaller one, which does
 *  less work again.  @collective{none} */
enum status choose_group(int n_layers, int in_flight, int64_t input, int64_t saved, int *group);
