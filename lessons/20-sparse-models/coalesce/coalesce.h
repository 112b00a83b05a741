/* The gradient of a table from the samples of a step, and the table's update: the contract of this exercise.
 *
 * A step has n occurrences, in the order of samples. Occurrence i looks up row[i] of a table, and the gradient of this
 * lookup is the D numbers at g + i D. row[i] = -1 is an empty place of a bag, and no row.
 *
 *   coalesced   every row that occurs, once, in ascending order, with the sum of the gradients of its occurrences
 *   update      for each such row v: G_v += mean over d of (factor g_d)^2;   w_v -= lr factor g / (sqrt(G_v) + eps)
 *
 * The caller owns the arrays of a struct coalesced, which have room for n rows. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct coalesced { int64_t n; int64_t *row; double *g; };   /* [n], and [n][D] */

/** Fill in *out. A row's gradients are added one after another in the order of samples, so that every layout gets the
 *  same bits. @param n_rows rows of the table; @errors E_DATA: an occurrence has row n_rows or more ("row 7 ...")
 *  @collective{none} */
enum status coalesce(const int64_t *row, const double *g, int64_t n, int64_t D, int64_t n_rows, struct coalesced *out);

/** The table's part of the squared gradient norm. @param D numbers of a row  @collective{none} */
double coalesced_squares(const struct coalesced *, int64_t D);

/** Rowwise Adagrad of the rows that occur; other rows do not change. factor NaN: the step is skipped, nothing changes.
 *  @param D numbers of a row; @param lr, eps, factor numbers; @param w (rows,D) updated; @param kept (rows) G, updated
 *  @collective{none} */
void coalesced_update(const struct coalesced *, int64_t D, double lr, double eps, double factor, double *w,
                      double *kept);
