/* Memory traffic of a row, derived from what the op declares. */
#pragma once

#include "lib/ops/op.h"

/** No flops worth counting; bytes: every operand that the row reads (op->needs) or writes, once. The cost of every op
 * that is bound by memory, and the bytes of the others. */
struct cost cost_traffic(const struct call *, enum row_kind);

/** The cost of two rows that one kernel runs (fusion.h); kind: the first row's. What both read counts once;
 *  products are not listed. */
struct cost cost_joined(const struct call *first, const struct call *second, enum row_kind kind);

/** Products more, and their flops. */
void cost_product(struct cost *, int64_t m, int64_t n, int64_t k, int64_t batch);
