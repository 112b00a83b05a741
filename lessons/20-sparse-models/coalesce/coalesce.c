/* The gradient of a table (lesson 20, "Coalesce, then square"). coalesce.h has each function's contract. */
#include "lessons/20-sparse-models/coalesce/coalesce.h"

enum status coalesce(const int64_t *row, const double *g, int64_t n, int64_t D, int64_t n_rows, struct coalesced *out) {
    /* Which rows occur, each once and in order? In which order are the gradients of one row added? */
    (void)row, (void)g, (void)n, (void)D, (void)n_rows, (void)out;
    return FAIL(E_TODO, "coalesce is still to be written");
}

/* TODO: square the sums, not the summands. */
double coalesced_squares(const struct coalesced *c, int64_t D) { return (void)c, (void)D, -1; }

void coalesced_update(const struct coalesced *c, int64_t D, double lr, double eps, double factor, double *w,
                      double *kept) {
    /* TODO: first update G, then w with the new G. */
    (void)c, (void)D, (void)lr, (void)eps, (void)factor, (void)w, (void)kept;
}
