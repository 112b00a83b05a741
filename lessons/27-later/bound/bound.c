/* Which workers may continue (lesson 27, "The bound"). bound.h has each function's contract. */
#include "lessons/27-later/bound/bound.h"

/* TODO: which workers count? */
int64_t bound_slowest(const struct bound *b) { return (void)b, -1; }

/* TODO: staleness may be INT64_MAX, and must not overflow. */
bool bound_allows(const struct bound *b, int w) { return (void)b, (void)w, false; }

enum status bound_asked(struct bound *b, int w, bool *go) {
    (void)b, (void)w, (void)go;
    return FAIL(E_TODO, "bound_asked is still to be written");
}

enum status bound_pushed(struct bound *b, int w, int64_t clock, bool *go) {
    /* Is `clock` the expected one? Then count it. Which workers may continue now? */
    (void)b, (void)w, (void)clock, (void)go;
    return FAIL(E_TODO, "bound_pushed is still to be written");
}

/* TODO: while a worker computes its clock t, from which clock to which may another worker advance? */
int64_t bound_most_stale(int n_workers, int64_t staleness) { return (void)n_workers, (void)staleness, -1; }
