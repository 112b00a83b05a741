/* Occurrences are sorted by row, and those of a row by sample. This code inserts rows one by one, because that is
 * short; the program has a radix sort with eleven bits per pass (lib/ops/rec/rows.c). */
#include "lessons/20-sparse-models/coalesce/coalesce.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* The index of the row in *out, or the index at which to insert it. */
static int64_t find(const struct coalesced *out, int64_t row) {
    int64_t low = 0, high = out->n;
    while (low < high) {
        int64_t middle = (low + high) / 2;
        if (out->row[middle] < row) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void insert(struct coalesced *out, int64_t at, int64_t row, int64_t D) {
    int64_t behind = out->n++ - at;
    memmove(out->row + at + 1, out->row + at, (size_t)behind * sizeof *out->row);
    memmove(out->g + (at + 1) * D, out->g + at * D, (size_t)(behind * D) * sizeof *out->g);
    out->row[at] = row;
    for (int64_t d = 0; d < D; d++) out->g[at * D + d] = 0;
}

enum status coalesce(const int64_t *row, const double *g, int64_t n, int64_t D, int64_t n_rows, struct coalesced *out) {
    out->n = 0;
    for (int64_t i = 0; i < n; i++) {
        if (row[i] < 0) continue;
        if (row[i] >= n_rows)
            return FAIL(E_DATA, "row %" PRId64 " is beyond the %" PRId64 " rows of the table", row[i], n_rows);
        int64_t at = find(out, row[i]);
        if (at == out->n || out->row[at] != row[i]) insert(out, at, row[i], D);
        for (int64_t d = 0; d < D; d++) out->g[at * D + d] += g[i * D + d];
    }
    return OK;
}

double coalesced_squares(const struct coalesced *c, int64_t D) {
    double squares = 0;
    for (int64_t i = 0; i < c->n * D; i++) squares += c->g[i] * c->g[i];
    return squares;
}

void coalesced_update(const struct coalesced *c, int64_t D, double lr, double eps, double factor, double *w,
                      double *kept) {
    if (isnan(factor)) return;
    for (int64_t i = 0; i < c->n; i++) {
        const double *g = c->g + i * D;
        double *row = w + c->row[i] * D, *G = &kept[c->row[i]], squares = 0;
        for (int64_t d = 0; d < D; d++) squares += factor * g[d] * (factor * g[d]);
        *G += squares / (double)D;
        for (int64_t d = 0; d < D; d++) row[d] -= lr * factor * g[d] / (sqrt(*G) + eps);
    }
}
