/* Buckets.
 *
 * Idea: an all-reduce costs latency + bytes / bandwidth. One per gradient pays the latency hundreds of times. A single
 * one for all of them cannot start before backward has ended. A bucket is the compromise: large enough to be efficient,
 * small enough that the first all-reduce is in flight while backward still works on earlier layers.
 *
 * Where: gradients are stored in the grad arena in the order of the param table, and backward finishes them roughly
 * from the end of the table to its start. So a bucket is a range of that arena: no copy, no extra memory, and
 * the result is already where the optimizer reads it. (DistributedDataParallel packs into separate flat buffers unless
 * gradient_as_bucket_view is set.) The price: the few bytes of alignment between params are sent too.
 *
 * What breaks: a bucket that starts before its last gradient is final reduces an incomplete gradient. That is why
 * `n_ready` counts final gradients only: another microbatch, or another use of a tied weight, may follow.
 *
 * Source: Li et al., "PyTorch Distributed", VLDB 2020, section 3.2.3. */
#include "dp/dp_bucket.h"

#include "lib/base/grow.h"
#include <stdlib.h>

static int64_t grad_end(const struct param *w) { return param_grad_offset(w) + type_bytes(&w->grad_type); }

/* Does this param still fit? One all-reduce has one dtype and one group. */
static bool has_room(const struct dp_bucket *b, const struct param *w, int64_t bytes) {
    return b->bytes < bytes && b->dtype == w->grad_type.dtype && b->axis == param_replicas(w);
}

static struct dp_bucket *bucket_new(struct dp_buckets *d, int param, const struct param *w) {
    d->bucket = table_grow(d->bucket, d->n, sizeof *d->bucket);
    struct dp_bucket *b = &d->bucket[d->n++];
    *b = (struct dp_bucket){.last = param, .dtype = w->grad_type.dtype, .axis = param_replicas(w)};
    return b;
}

enum status dp_buckets_init(struct dp_buckets *d, const struct program *p, int64_t bytes) {
    struct dp_bucket *b = NULL;
    int64_t end = 0;
    *d = (struct dp_buckets){.of_param = malloc((size_t)(p->n_params + 1) * sizeof(int))};
    if (!d->of_param) return FAIL(E_MEMORY, "no memory for the buckets of %d params", p->n_params);
    for (int i = p->n_params - 1; i >= 0; i--) {
        const struct param *w = &p->params[i];
        d->of_param[i] = -1;
        if (!param_is_dense(w)) continue;
        if (!b || !has_room(b, w, bytes)) {
            b = bucket_new(d, i, w);
            end = grad_end(w);
        }
        b->first = i;
        b->offset = param_grad_offset(w);
        b->bytes = end - b->offset;
        b->n_params++;
        d->of_param[i] = d->n - 1;
    }
    return OK;
}

void dp_buckets_fini(struct dp_buckets *d) {
    free(d->bucket);
    free(d->of_param);
    *d = (struct dp_buckets){0};
}

enum status dp_bucket_ready(struct dp_buckets *d, int param, void *grad_base, const struct group *group) {
    struct dp_bucket *b = &d->bucket[d->of_param[param]];
    if (++b->n_ready < b->n_params) return OK;
    int64_t count = b->bytes / (int64_t)dtype_size(b->dtype);
    return comm_all_reduce_start(group, (char *)grad_base + b->offset, count, b->dtype, COMM_SUM, &b->request);
}

enum status dp_buckets_finish(struct dp_buckets *d) {
    for (int i = 0; i < d->n; i++) {
        struct dp_bucket *b = &d->bucket[i];
        if (b->n_ready != b->n_params)
            return FAIL(E_INTERNAL, "bucket %d has %d final gradients of %d at the end of backward", i, b->n_ready,
                        b->n_params);
        TRY(comm_wait(&b->request));
        b->n_ready = 0;
    }
    return OK;
}
