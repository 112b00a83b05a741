/* The order of samples, and documents in rows. order.h has each function's contract. */
#include "lessons/25-data/order/order.h"

#include "lib/base/rng.h"

enum status order_sample(const struct order *o, int64_t step, int64_t i, int64_t *index) {
    /* The sample's number in the run gives its epoch, and its place there. */
    (void)o, (void)step, (void)i, (void)index;
    return FAIL(E_TODO, "order_sample is still to be written");
}

enum status order_of_replica(const struct order *o, int64_t step, struct replica r, int64_t m, int64_t b,
                             int64_t *index) {
    /* Which number of the global batch is it? */
    (void)o, (void)step, (void)r, (void)m, (void)b, (void)index;
    return FAIL(E_TODO, "order_of_replica is still to be written");
}

enum status order_resized(const struct order *o, int64_t steps, int64_t global_batch, struct order *after) {
    (void)o, (void)steps, (void)global_batch, (void)after;
    return FAIL(E_TODO, "order_resized is still to be written");
}

enum status order_pack(const int64_t *length, int64_t n, int64_t T, struct packed *place, int64_t *n_rows) {
    /* The room of a row: T, less the lengths of the documents before this one that lie in it. */
    (void)length, (void)n, (void)T, (void)place, (void)n_rows;
    return FAIL(E_TODO, "order_pack is still to be written");
}

enum status order_row(const int32_t *const *document, const int64_t *length, int64_t n, int64_t T, struct row row) {
    (void)document, (void)length, (void)n, (void)T, (void)row;
    return FAIL(E_TODO, "order_row is still to be written");
}

enum status order_sees(const int32_t *segment, int64_t q, int64_t k, int *sees) {
    (void)segment, (void)q, (void)k, (void)sees;
    return FAIL(E_TODO, "order_sees is still to be written");
}
