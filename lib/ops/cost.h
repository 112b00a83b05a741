/* Memory traffic of a row, derived from what the op declares. */
#pragma once

#include "lib/ops/op.h"

/** The cost of an op that is bound by memory: no flops, and the bytes of every operand that the row reads (op->needs)
 * or writes, once. Other ops use its bytes. */
struct cost cost_traffic(const struct call *, enum row_kind);

/** The cost of two rows that one kernel runs (fusion.h); kind: the first row's. An operand of both counts once.
 *  cost.product is empty. */
struct cost cost_joined(const struct call *first, const struct call *second, enum row_kind kind);

/** Add `batch` matrix products (m,k) (k,n) and their flops to a cost. */
void cost_product(struct cost *, int64_t m, int64_t n, int64_t k, int64_t batch);
