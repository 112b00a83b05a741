/* Which workers may continue. Only a push changes `slowest`, and may release many workers, so every waiting worker is
 * checked after each message. A worker that has left does not count, because the others would wait for it forever. */
#include "lessons/27-later/bound/bound.h"

#include <inttypes.h>

int64_t bound_slowest(const struct bound *b) {
    int64_t least = INT64_MAX;
    for (int w = 0; w < b->n_workers; w++)
        if (b->finished[w] < b->clocks[w] && b->finished[w] < least) least = b->finished[w];
    return least;
}

/* A difference of clocks cannot overflow; slowest + staleness can. */
bool bound_allows(const struct bound *b, int w) { return b->finished[w] - bound_slowest(b) <= b->staleness; }

static void let_go(struct bound *b, bool *go) {
    for (int v = 0; v < b->n_workers; v++) {
        go[v] = b->waits[v] && bound_allows(b, v);
        if (go[v]) b->waits[v] = false;
    }
}

enum status bound_asked(struct bound *b, int w, bool *go) {
    b->waits[w] = true;
    let_go(b, go);
    return OK;
}

enum status bound_pushed(struct bound *b, int w, int64_t clock, bool *go) {
    if (clock != b->finished[w])
        return FAIL(E_INTERNAL, "worker %d pushes clock %" PRId64 ", and has finished %" PRId64, w, clock,
                    b->finished[w]);
    b->finished[w]++;
    let_go(b, go);
    return OK;
}

/* While w computes clock t, another worker advances at most from t - s to t + s + 1 finished clocks; s: staleness. */
int64_t bound_most_stale(int n_workers, int64_t staleness) {
    if (n_workers < 2) return 0;
    if (staleness > (INT64_MAX / (n_workers - 1) - 1) / 2) return INT64_MAX;
    return (2 * staleness + 1) * (n_workers - 1);
}
