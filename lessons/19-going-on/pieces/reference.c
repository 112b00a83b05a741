#include "lessons/19-going-on/pieces/pieces.h"

#include <stddef.h>

int64_t pieces_first(int64_t n, int m, int i) { return n * i / m; }

/* Does this process have old shard i, as its owner or as a copy of its left neighbor's? */
static bool has(const struct membership *from, int i, int32_t slot) {
    int place = membership_place(from, slot);
    return place >= 0 && (place == i || place == (i + 1) % from->n);
}

/* The process that sends a shard; -1: no member of `now` has the shard. */
static int32_t holder(const struct membership *from, int i, const struct membership *now) {
    int32_t owner = from->slot[i], right = from->slot[(i + 1) % from->n];
    if (membership_place(now, owner) >= 0) return owner;
    return membership_place(now, right) >= 0 ? right : -1;
}

static enum status check(int64_t n, const struct membership *from, const struct membership *now) {
    for (int i = 0; i < from->n; i++)
        if (pieces_first(n, from->n, i) < pieces_first(n, from->n, i + 1) && holder(from, i, now) < 0)
            return FAIL(E_DATA, "shard %d is gone: processes %d and %d, which had it, are no members; go back to a "
                        "checkpoint", i, (int)from->slot[i], (int)from->slot[(i + 1) % from->n]);
    return OK;
}

struct list { struct transfer *out; int most, n; };

/* Append a transfer, or extend the last one. @return false if the list is full */
static bool add(struct list *l, struct transfer x) {
    struct transfer *last = l->n ? &l->out[l->n - 1] : NULL;
    if (last && last->from_slot == x.from_slot && last->to_slot == x.to_slot && last->first + last->n == x.first) {
        last->n += x.n;
        return true;
    }
    if (l->n == l->most) return false;
    l->out[l->n++] = x;
    return true;
}

enum status pieces_plan(int64_t n, const struct membership *from, const struct membership *now, struct transfer *out,
                        int most,
                        int *n_out) {
    struct list l = {out, most, 0};
    *n_out = 0;
    TRY(check(n, from, now));
    for (int p = 0; p < now->n; p++) {
        int64_t begin = pieces_first(n, now->n, p), end = pieces_first(n, now->n, p + 1);
        for (int i = 0; i < from->n; i++) {
            int64_t a = pieces_first(n, from->n, i), b = pieces_first(n, from->n, i + 1);
            if (a < begin) a = begin;
            if (b > end) b = end;
            if (a >= b || has(from, i, now->slot[p])) continue;
            if (!add(&l, (struct transfer){holder(from, i, now), now->slot[p], a, b - a}))
                return FAIL(E_INTERNAL, "there are more than %d transfers", most);
        }
    }
    *n_out = l.n;
    return OK;
}
