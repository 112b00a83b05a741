#include "oracle/place.h"

#include "lib/base/integer.h"
#include <stdio.h>
#include <string.h>

/* ---- taking apart ---- */
/* Local elements [first, first + n) along each axis of the held shape. */
struct part { int64_t first[MAX_AXES], n[MAX_AXES]; };

struct placing {
    const struct published *row;
    const struct shape *held;
    int layer;
    int n_groups, group[BOX_AXES][MAX_AXES], size[BOX_AXES];     /* published axes: indices of our axes */
    bool chooses[MAX_AXES];                                          /* our axes that are in no published axis */
    place_visit *visit;
    void *self;
};

static enum status read_axes(struct placing *p) {
    for (int a = 0; a < p->held->n_axes; a++) p->chooses[a] = true;
    p->n_groups = 1;
    for (const char *c = p->row->axes; *c; c++) {
        int at = 0, g = p->n_groups - 1;
        if (*c == ' ') {
            p->n_groups++;
            continue;
        }
        while (at < p->held->n_axes && (p->held->axis[at].tag != *c || !p->chooses[at])) at++;
        if (at == p->held->n_axes && p->held->n_axes == 1) continue;  /* a gain may be of a head alone */
        if (at == p->held->n_axes)
            return FAIL(E_INTERNAL, "%s has no axis %c, of which %s would be", p->row->ours, *c, p->row->axes);
        p->group[g][p->size[g]++] = at;
        p->chooses[at] = false;
    }
    return OK;
}

static int64_t global(const struct placing *p, int a, int64_t local) {
    return axis_global(&p->held->axis[a], local);
}

static enum status emit(const struct placing *p, const struct part *x) {
    struct placed out = {.offset = 0};
    int64_t stride[MAX_AXES], step = 1, expert = 0, which = 0;
    for (int a = p->held->n_axes - 1; a >= 0; step *= p->held->axis[a--].n) {
        stride[a] = step;
        out.offset += x->first[a] * step;
        if (p->chooses[a]) *(p->held->axis[a].tag == 'E' ? &expert : &which) = global(p, a, x->first[a]);
    }
    out.box.n_axes = p->n_groups;
    for (int g = 0; g < p->n_groups; g++) {
        out.box.of[g] = out.box.n[g] = 1;
        for (int i = 0; i < p->size[g]; i++) {
            int a = p->group[g][i];
            out.box.first[g] = out.box.first[g] * p->held->axis[a].global + global(p, a, x->first[a]);
            out.box.of[g] *= p->held->axis[a].global;
            out.box.n[g] *= x->n[a];
            out.count[out.n_loops] = x->n[a];
            out.stride[out.n_loops++] = stride[a];
        }
    }
    published_name(p->row->theirs[which], p->layer, expert, out.name);
    return p->visit(p->self, &out);
}

static bool is_whole(const struct placing *p, const struct part *x, int a) {
    return x->n[a] == p->held->axis[a].global;
}

/* An axis that must be taken one element at a time: it chooses the tensor, or it is followed, in its published axis, by
 * one that is not whole. -1: none. */
static int to_split(const struct placing *p, const struct part *x) {
    for (int a = 0; a < p->held->n_axes; a++)
        if (p->chooses[a] && x->n[a] > 1) return a;
    for (int g = 0; g < p->n_groups; g++) {
        bool whole = true;
        for (int i = p->size[g] - 1; i >= 0; i--) {
            int a = p->group[g][i];
            if (!whole && x->n[a] > 1) return a;
            whole = whole && is_whole(p, x, a);
        }
    }
    return -1;
}

static enum status split(const struct placing *p, const struct part *x) {
    int a = to_split(p, x);
    if (a < 0) return emit(p, x);
    struct part one = *x;
    one.n[a] = 1;
    for (one.first[a] = x->first[a]; one.first[a] < x->first[a] + x->n[a]; one.first[a]++) TRY(split(p, &one));
    return OK;
}

/* Cut from axis a on: no part crosses a turn, and none has padding. */
static enum status cut(const struct placing *p, struct part x, int a) {
    if (a == p->held->n_axes) return split(p, &x);
    const struct axis *axis = &p->held->axis[a];
    int64_t end = x.first[a] + x.n[a], turn = axis->turn;
    if (axis->jump && x.first[a] < turn && turn < end) {
        struct part before = x;
        before.n[a] = turn - x.first[a];
        TRY(cut(p, before, a));
        x.first[a] = turn;
        x.n[a] = end - turn;
    }
    x.n[a] = min64(x.n[a], axis->global - global(p, a, x.first[a]));
    return x.n[a] > 0 ? cut(p, x, a + 1) : OK;
}

/* The next part of a run: whole rows of the outermost axis at which a row begins here, as many as the run has. */
static struct part next_part(const struct shape *s, int64_t at, int64_t left) {
    struct part x;
    int64_t row = shape_n(s), rest = at;
    int a = 0;
    for (;; a++) {
        row /= s->axis[a].n;                                         /* elements of one place of axis a */
        x.first[a] = rest / row;
        rest -= x.first[a] * row;
        x.n[a] = 1;
        if (rest == 0 && left >= row) break;
    }
    x.n[a] = min64(left / row, s->axis[a].n - x.first[a]);
    for (int b = a + 1; b < s->n_axes; b++) x.first[b] = 0, x.n[b] = s->axis[b].n;
    return x;
}

enum status place_each(const struct published *row, int layer, const struct shape *held, int64_t run_first,
                       int64_t run_n, place_visit *visit, void *self) {
    struct placing p = {.row = row, .held = held, .layer = layer, .visit = visit, .self = self};
    TRY(read_axes(&p));
    for (int64_t at = run_first; at < run_first + run_n;) {
        struct part x = next_part(held, at, run_first + run_n - at);
        int64_t n = 1;
        for (int a = 0; a < held->n_axes; a++) n *= x.n[a];
        TRY(cut(&p, x, 0));
        at += n;
    }
    return OK;
}
