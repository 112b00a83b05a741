/* The bill of buckets: an all-reduce for each, behind the rest of backward. */
#include "dp/dp_bucket.h"

void dp_buckets_bill(const struct dp_buckets *d, const struct mesh_place *place, struct bill *bill) {
    for (int i = 0; i < d->n; i++) {
        const struct dp_bucket *b = &d->bucket[i];
        bill_exchange(bill, place, (struct exchange){.axis = b->axis, .op = COMM_ALL_REDUCE,
                                                     .count = b->bytes / (int64_t)dtype_size(b->dtype),
                                                     .dtype = b->dtype, .when = BEHIND_BACKWARD});
    }
}
