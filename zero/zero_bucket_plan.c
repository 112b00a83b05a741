/* The plan of a step's buckets: the sequence of gradients, predicted from rows and schedule; memory; the bill. */
#include "lib/base/grow.h"
#include "lib/program/gradients.h"
#include "zero/zero_bucket.h"

#include <stdlib.h>

static void predict(struct zero_buckets *z, const struct compiled *c, bool every) {
    struct row_walk at = {.ends = !every};
    for (const struct row *r; (r = schedule_next_row(c->schedule, c->chunks, &at));) {
        if (r->kind != ROW_GRAD_READY || (!every && !row_is_final(r, at.action))) continue;
        z->params = table_grow(z->params, z->n_params, sizeof *z->params);
        z->nth = table_grow(z->nth, z->n_params, sizeof *z->nth);
        z->nth[z->n_params] = at.action->nth;
        z->params[z->n_params++] = r->id;
    }
}

enum status zero_buckets_init(struct zero_buckets *z, const struct compiled *c, bool every, int64_t bytes) {
    *z = (struct zero_buckets){0};
    predict(z, c, every);
    TRY(zero_buckets_cut(z, c->program, bytes));
    return zero_buckets_size(z);
}

void zero_buckets_fini(struct zero_buckets *z) {
    free(z->params);
    free(z->nth);
    free(z->buckets);
    *z = (struct zero_buckets){0};
}

int64_t zero_buckets_comm_bytes(const struct zero_buckets *of) {
    struct zero_buckets z = *of;
    return zero_buckets_lay_out(&z, NULL);
}

void zero_buckets_place(struct zero_buckets *z, const struct device *device, void *comm) {
    z->device = device;
    zero_buckets_lay_out(z, comm);
}

/* Packing reads and writes the whole bucket. Adding reads the sums and the own gradient, and writes the gradient. */
void zero_buckets_bill(const struct zero_buckets *z, const struct mesh_place *place, struct bill *bill) {
    for (int i = 0; i < z->n; i++) {
        const struct zero_bucket *b = &z->buckets[i];
        double elements = (double)b->count * (2 * b->n_ranks + 3);
        bill_exchange(bill, place, (struct exchange){.axis = b->axis, .op = COMM_REDUCE_SCATTER,
                                                     .count = b->count * b->n_ranks, .dtype = b->dtype,
                                                     .when = BEHIND_BACKWARD,
                                                     .packing = elements * (double)dtype_size(b->dtype)});
    }
}
