/* Coalesced gradients of rows, their squares, and rowwise Adagrad. See rows.h. bf16 and fp16 have no kernel. */
#include "lib/ops/cpu.h"
#include "lib/ops/rec/rows.h"

#if defined ELEM_fp64 || defined ELEM_fp32

rows_squares_kernel CPU(rows_squares);
rows_update_kernel CPU(rows_update);

/* The vector of an occurrence: that of its bag. */
static const elem *vector_of(const struct rows *r, uint32_t id) {
    int64_t n_ids = type_n(&r->ids), M = r->ids.shape.axis[3].n, D = r->table.shape.axis[2].n;
    const char *record = r->records + id / n_ids * r->record_bytes;
    return (const elem *)(record + rows_vectors_at(n_ids)) + id % n_ids / M * D;
}

static int64_t end_of_row(const struct rows *r, int64_t from) {
    int64_t end = from + 1;
    while (end < r->n && r->index[end].row == r->index[from].row) end++;
    return end;
}

/* Sum the vectors of occurrences from .. end - 1, in the order of samples. */
static void coalesce(const struct rows *r, int64_t from, int64_t end, real *sum) {
    int64_t D = r->table.shape.axis[2].n;
    for (int64_t d = 0; d < D; d++) sum[d] = 0;
    for (int64_t i = from; i < end; i++) {
        const elem *g = vector_of(r, r->index[i].id);
        for (int64_t d = 0; d < D; d++) sum[d] += g[d];
    }
}

double CPU(rows_squares)(const struct rows *r) {
    int64_t D = r->table.shape.axis[2].n;
    double squares = 0;
    real sum[D];
    for (int64_t from = 0, end; from < r->n; from = end) {
        end = end_of_row(r, from);
        coalesce(r, from, end, sum);
        for (int64_t d = 0; d < D; d++) squares += (double)sum[d] * (double)sum[d];
    }
    return squares;
}

static void update_row(const struct rows *r, int64_t row, const real *sum, real lr, real eps, real multiplier) {
    int64_t D = r->table.shape.axis[2].n;
    real *w = (real *)r->weight + (r->place ? r->place[row] : row) * D, *kept = (real *)r->kept + row, squares = 0;
    for (int64_t d = 0; d < D; d++) squares += multiplier * sum[d] * (multiplier * sum[d]);
    *kept += squares / (real)D;
    real rate = lr * multiplier / ((real)sqrt((double)*kept) + eps);
    for (int64_t d = 0; d < D; d++) w[d] -= rate * sum[d];
}

/* Rows are independent: a thread updates every row that begins in its part of the index. */
void CPU(rows_update)(const struct rows *r, double lr, double eps, double multiplier) {
    enum { PART = 256 };
#pragma omp parallel for schedule(dynamic)
    for (int64_t part = 0; part < r->n; part += PART) {
        real sum[r->table.shape.axis[2].n];
        int64_t from = part, stop = min64(part + PART, r->n);
        while (from > 0 && from < stop && r->index[from].row == r->index[from - 1].row) from++;
        for (int64_t end; from < stop; from = end) {
            end = end_of_row(r, from);
            coalesce(r, from, end, sum);
            update_row(r, r->index[from].row, sum, (real)lr, (real)eps, (real)multiplier);
        }
    }
}

#endif
