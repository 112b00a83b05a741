/* Place the largest tables first, so that the last ones are small and fill the gaps. Graham 1969 has the bound 4/3. */
#include "lessons/20-sparse-models/placement/placement.h"

#include <stdbool.h>

static int64_t part(const struct table *t, int n) { return (t->rows + n - 1) / n; }

double placement_busiest(const struct table *t, int n_tables, int n, const int *owner) {
    double most = 0;
    for (int r = 0; r < n; r++) {
        double lookups = 0;
        for (int f = 0; f < n_tables; f++)
            lookups += owner[f] == BY_ROW ? t[f].lookups / n : owner[f] == r ? t[f].lookups : 0;
        if (lookups > most) most = lookups;
    }
    return most;
}

int64_t placement_largest(const struct table *t, int n_tables, int n, const int *owner) {
    int64_t most = 0;
    for (int r = 0; r < n; r++) {
        int64_t rows = 0;
        for (int f = 0; f < n_tables; f++) rows += owner[f] == BY_ROW ? part(&t[f], n) : owner[f] == r ? t[f].rows : 0;
        if (rows > most) most = rows;
    }
    return most;
}

struct ranks { int64_t rows[MOST_RANKS]; double lookups[MOST_RANKS]; int n; };

/* The rank with the fewest lookups that has room; BY_ROW if no rank has room. */
static int idlest(const struct ranks *x, int64_t rows, int64_t most_rows) {
    int best = BY_ROW;
    for (int r = 0; r < x->n; r++)
        if (x->rows[r] + rows <= most_rows && (best == BY_ROW || x->lookups[r] < x->lookups[best])) best = r;
    return best;
}

static void add(struct ranks *x, int r, int64_t rows, double lookups) { x->rows[r] += rows, x->lookups[r] += lookups; }

static enum status divide(struct ranks *x, const struct table *t, int f, int64_t most_rows) {
    for (int r = 0; r < x->n; r++) {
        add(x, r, part(&t[f], x->n), t[f].lookups / x->n);
        if (x->rows[r] > most_rows) return FAIL(E_CONFIG, "table %d has no room, not even divided over all ranks", f);
    }
    return OK;
}

static int hottest_left(const struct table *t, int n_tables, const bool *placed) {
    int best = -1;
    for (int f = 0; f < n_tables; f++)
        if (!placed[f] && (best < 0 || t[f].lookups > t[best].lookups)) best = f;
    return best;
}

enum status placement_choose(const struct table *t, int n_tables, int n, int64_t most_rows, int *owner) {
    struct ranks x = {.n = n};
    bool placed[MOST_TABLES] = {false};
    double share = 0;
    for (int f = 0; f < n_tables; f++) share += t[f].lookups / n;
    for (int f; (f = hottest_left(t, n_tables, placed)) >= 0; placed[f] = true) {
        owner[f] = t[f].lookups > share ? BY_ROW : idlest(&x, t[f].rows, most_rows);
        if (owner[f] == BY_ROW) TRY(divide(&x, t, f, most_rows));
        else add(&x, owner[f], t[f].rows, t[f].lookups);
    }
    return OK;
}
