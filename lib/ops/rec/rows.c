#include "lib/ops/rec/rows.h"

#include <math.h>

/* ---- the index ---- */
static const int32_t *ids_of(const struct rows *r, int record) {
    return (const int32_t *)(r->records + record * r->record_bytes);
}

static void find(struct rows *r) {
    int64_t n_ids = type_n(&r->ids);
    r->n = 0;
    for (int k = 0; k < r->n_records; k++)
        for (int64_t i = 0; i < n_ids; i++) {
            int64_t row = rows_of_id(&r->ids, &r->table, i, ids_of(r, k)[i]);
            if (row >= 0) r->index[r->n++] = (struct occurrence){(uint32_t)row, (uint32_t)(k * n_ids + i)};
        }
}

/* A radix sort, eleven bits at a time, the lowest first. Each pass keeps the order of equal digits. */
enum { BITS = 11, DIGITS = 1 << BITS };
static void sort_digit(struct rows *r, int shift) {
    int64_t start[DIGITS + 1] = {0};
    for (int64_t i = 0; i < r->n; i++) start[(r->index[i].row >> shift & (DIGITS - 1)) + 1]++;
    for (int d = 0; d < DIGITS; d++) start[d + 1] += start[d];
    for (int64_t i = 0; i < r->n; i++) r->other[start[r->index[i].row >> shift & (DIGITS - 1)]++] = r->index[i];
    struct occurrence *sorted = r->other;
    r->other = r->index;
    r->index = sorted;
}

void rows_sort(struct rows *r) {
    int64_t n_rows = r->table.shape.axis[0].n * r->table.shape.axis[1].n;
    find(r);
    for (int shift = 0; shift < 32 && (n_rows - 1) >> shift > 0; shift += BITS) sort_digit(r, shift);
}

/* ---- by element type ---- */
rows_squares_kernel rows_squares_cpu_fp64, rows_squares_cpu_fp32;
rows_update_kernel rows_update_cpu_fp64, rows_update_cpu_fp32;

static enum status check(const struct rows *r) {
    enum dtype d = r->table.dtype;
    return d == FP64 || d == FP32 ? OK : FAIL(E_CONFIG, "rows of tables are fp32 or fp64, and not %s", dtype_name(d));
}

enum status rows_squares(const struct rows *r, double *out) {
    TRY(check(r));
    *out = r->table.dtype == FP64 ? rows_squares_cpu_fp64(r) : rows_squares_cpu_fp32(r);
    return OK;
}

enum status rows_update(const struct rows *r, double lr, double eps, double multiplier) {
    TRY(check(r));
    if (isnan(multiplier)) return OK;
    (r->table.dtype == FP64 ? rows_update_cpu_fp64 : rows_update_cpu_fp32)(r, lr, eps, multiplier);
    return OK;
}
