/* The update of the rows that a step used: rowwise Adagrad.
 *
 *   for every row v that some bag of the step names (coalescing):
 *     g    = sum of the vectors of all its occurrences, in the order of samples (and of places in a bag)
 *     G_v  = G_v + mean over d of (multiplier g_d)^2
 *     w_v  = w_v - lr multiplier g / (sqrt(G_v) + eps)
 *
 * A row may be in many bags, of many senders and microbatches. It is updated once, by the sum. The squares of parts do
 * not add up to the square of the sum, so coalescing after squaring, or per sender, is another algorithm, off by tens
 * of percent.
 *
 * Occurrences are numbered in the order of samples: microbatches, and in each the replicas' samples, are consecutive. A
 * stable sort by row keeps this order. So a row's sum has the order of samples in every layout that does not split
 * bags.
 *
 * Memory: the records are in the gradient arena (embedding_bag.h); G is next to the table, one number per row; the
 * index is in the run's part of the work arena, 16 bytes an id.
 *
 * Source: Duchi et al. 2011 (Adagrad); Gupta et al. 2014, rowwise; FBGEMM's EXACT_ROWWISE_ADAGRAD. */
#pragma once

#include "lib/device/arena.h"
#include "lib/ops/op.h"

/** The offset of the vectors in a record, after its ids. */
static inline int64_t rows_vectors_at(int64_t n_ids) { return arena_align(n_ids * (int64_t)sizeof(int32_t)); }
/** Bytes of a record, for a call of embedding_bag. */
int64_t rows_record_bytes(const struct call *);

/* An occurrence of a row: the row in this rank's tables (f V + v), and the number of its id, counted over the
 * records. */
struct occurrence { uint32_t row, id; };

/* A table and the records of one step. */
struct rows {
    struct type ids, table;              /* (P,F,B,M) of one record; (F,V,D) */
    const char *records;
    int64_t record_bytes;
    int n_records;
    void *weight, *kept;                 /* (F,V,D) and (F,V), in the table's dtype */
    const int32_t *place;                /* a row's index in weight; NULL: rows are in order */
    struct occurrence *index, *other;    /* [n_records x ids]: the index, which rows_sort sorts by row; scratch */
    int64_t n;                           /* occurrences in this rank's rows, set by rows_sort */
};

/** Bytes of both index tables. */
static inline int64_t rows_index_bytes(const struct type *ids, int n_records) {
    return 2 * n_records * type_n(ids) * (int64_t)sizeof(struct occurrence);
}

/** The row of this rank's tables that the i-th id of a record names; -1: the id is not in them. */
static inline int64_t rows_of_id(const struct type *ids, const struct type *table, int64_t i, int32_t id) {
    const struct axis *a = ids->shape.axis, *t = table->shape.axis;
    int64_t v = id - t[1].first, f = i / (a[2].n * a[3].n) % a[1].n;
    return id < 0 || v < 0 || v >= t[1].n ? -1 : f * t[1].n + v;
}

/** Find the occurrences of this rank's rows. Sets index, sorted stably by row, and n. @collective{none} */
void rows_sort(struct rows *);
/** Sum of the squares of the coalesced gradient. After rows_sort. @errors E_CONFIG: a dtype without a kernel */
enum status rows_squares(const struct rows *, double *out);
/** Update every row once; if multiplier is NaN, change nothing. After rows_sort. @errors as above */
enum status rows_update(const struct rows *, double lr, double eps, double multiplier);

/* The kernels, by element type (rows_cpu.c). */
typedef double rows_squares_kernel(const struct rows *);
typedef void rows_update_kernel(const struct rows *, double lr, double eps, double multiplier);
