/* The update of the rows that a step used: rowwise Adagrad.
 *
 *   for every row v that some bag of the step names (coalescing):
 *     g    = sum of the vectors of all its occurrences, in the order of samples (and of places in a bag)
 *     G_v  = G_v + mean over d of (multiplier g_d)^2
 *     w_v  = w_v - lr multiplier g / (sqrt(G_v) + eps)
 *
 * A row may stand in many bags, of many senders and microbatches. It is updated once, by the sum: squares of parts are
 * not the square of the sum, so coalescing after squaring, or per sender, is another algorithm, off by tens of percent.
 *
 * Occurrences are numbered in the order of samples: microbatches, and in each the replicas' samples, are consecutive.
 * They are sorted by row, stably, so the order of a row's sum is that of samples in every layout that has its bags
 * whole.
 *
 * Stored where: the records in the gradient arena (embedding_bag.h); G next to the table, one number per row; the index
 * in the run's part of the work arena, 16 bytes an id.
 *
 * Source: Duchi et al. 2011 (Adagrad); Gupta et al. 2014, rowwise; FBGEMM's EXACT_ROWWISE_ADAGRAD. */
#pragma once

#include "lib/device/arena.h"
#include "lib/ops/op.h"

/** A record: ids, then vectors, which begin here. */
static inline int64_t rows_vectors_at(int64_t n_ids) { return arena_align(n_ids * (int64_t)sizeof(int32_t)); }
/** Its bytes, of a call of embedding_bag. */
int64_t rows_record_bytes(const struct call *);

/* An occurrence of a row: the row of this rank's tables (f V + v), and which id it is, counted over the records. */
struct occurrence { uint32_t row, id; };

/* A table and the records of one step. */
struct rows {
    struct type ids, table;              /* (P,F,B,M) of one record; (F,V,D) */
    const char *records;
    int64_t record_bytes;
    int n_records;
    void *weight, *kept;                 /* (F,V,D) and (F,V), in the table's dtype */
    const int32_t *place;                /* of a row, where in weight it is, in rows; NULL: all lie in order */
    struct occurrence *index, *other;    /* [n_records x ids]: sorted by row after rows_sort; and scratch */
    int64_t n;                           /* occurrences in this rank's rows, set by rows_sort */
};

/** Bytes of both index tables. */
static inline int64_t rows_index_bytes(const struct type *ids, int n_records) {
    return 2 * n_records * type_n(ids) * (int64_t)sizeof(struct occurrence);
}

/** The row of this rank's tables that the i-th id of a record names; -1: none of them. */
static inline int64_t rows_of_id(const struct type *ids, const struct type *table, int64_t i, int32_t id) {
    const struct axis *a = ids->shape.axis, *t = table->shape.axis;
    int64_t v = id - t[1].first, f = i / (a[2].n * a[3].n) % a[1].n;
    return id < 0 || v < 0 || v >= t[1].n ? -1 : f * t[1].n + v;
}

/** Find the occurrences of this rank's rows. Sets index, sorted stably by row, and n. @collective{none} */
void rows_sort(struct rows *);
/** The squares of the coalesced gradient, in sum. After rows_sort. @errors E_CONFIG: a dtype without a kernel */
enum status rows_squares(const struct rows *, double *out);
/** Update every row once; NaN as multiplier changes nothing. After rows_sort. @errors as above */
enum status rows_update(const struct rows *, double lr, double eps, double multiplier);

/* The kernels, by element type (rows_cpu.c). */
typedef double rows_squares_kernel(const struct rows *);
typedef void rows_update_kernel(const struct rows *, double lr, double eps, double multiplier);
