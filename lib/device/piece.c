#include "lib/device/piece.h"

/* The longest run found so far whose elements are consecutive in both pieces. */
struct run_of { piece_visit *visit; void *self; int64_t to_at, from_at, n; };

static enum status flush(struct run_of *r) {
    if (r->n == 0) return OK;
    int64_t n = r->n;
    r->n = 0;
    return r->visit(r->self, r->to_at, r->from_at, n);
}

static enum status extend(struct run_of *r, int64_t to_at, int64_t from_at, int64_t n) {
    if (r->n > 0 && r->to_at + r->n == to_at && r->from_at + r->n == from_at) {
        r->n += n;
        return OK;
    }
    TRY(flush(r));
    r->to_at = to_at, r->from_at = from_at, r->n = n;
    return OK;
}

static int64_t later(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t earlier(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t last_n(const struct shape *s) { return s->n_axes ? s->axis[s->n_axes - 1].n : 1; }

/* The place of row r of a box in the global tensor, on every axis but the last. */
static void place_of_row(const struct shape *box, int64_t r, int64_t place[MAX_AXES]) {
    for (int i = box->n_axes - 2; i >= 0; i--) {
        place[i] = box->axis[i].first + r % box->axis[i].n;
        r /= box->axis[i].n;
    }
}

/* The row of a box at this place; -1: the box does not have it, or it is beyond the global tensor. */
static int64_t row_at(const struct shape *box, const int64_t place[MAX_AXES]) {
    int64_t r = 0;
    for (int i = 0; i < box->n_axes - 1; i++) {
        const struct axis *a = &box->axis[i];
        if (place[i] < a->first || place[i] >= a->first + a->n || place[i] >= a->global) return -1;
        r = r * a->n + place[i] - a->first;
    }
    return r;
}

/* The elements that row `row` of `to` and the row of `from` at the same place share, within both runs. */
static enum status common_of_row(const struct piece *to, const struct piece *from, int64_t row, struct run_of *run) {
    int64_t place[MAX_AXES];
    place_of_row(&to->box, row, place);
    int64_t other = row_at(&from->box, place), to_n = last_n(&to->box), from_n = last_n(&from->box);
    if (other < 0) return OK;
    const struct axis whole = {.n = 1, .global = 1}, *a = &whole, *b = &whole;
    if (to->box.n_axes) a = &to->box.axis[to->box.n_axes - 1], b = &from->box.axis[from->box.n_axes - 1];
    int64_t begin = later(a->first, b->first), end = earlier(earlier(a->first + a->n, b->first + b->n), a->global);
    /* limited by the ends of the runs, on the same axis */
    begin = later(begin, later(to->first - row * to_n + a->first, from->first - other * from_n + b->first));
    end = earlier(end, earlier(to->first + to->n - row * to_n + a->first,
                               from->first + from->n - other * from_n + b->first));
    if (begin >= end) return OK;
    return extend(run, row * to_n + begin - a->first - to->first, other * from_n + begin - b->first - from->first,
                  end - begin);
}

static bool same_global(const struct shape *a, const struct shape *b) {
    bool same = a->n_axes == b->n_axes;
    for (int i = 0; same && i < a->n_axes; i++) same = a->axis[i].global == b->axis[i].global;
    return same;
}

enum status piece_common(const struct piece *to, const struct piece *from, piece_visit *visit, void *self) {
    struct run_of run = {visit, self, 0, 0, 0};
    int64_t width = last_n(&to->box);
    if (!same_global(&to->box, &from->box)) return FAIL(E_INTERNAL, "two pieces of different tensors are compared");
    if (to->n == 0 || from->n == 0 || width == 0) return OK;
    for (int64_t row = to->first / width; row * width < to->first + to->n; row++)
        TRY(common_of_row(to, from, row, &run));
    return flush(&run);
}

static enum status count(void *self, int64_t to_at, int64_t from_at, int64_t n) {
    (void)to_at, (void)from_at;
    *(int64_t *)self += n;
    return OK;
}

int64_t piece_real_n(const struct piece *p) {
    struct piece whole = *p;
    int64_t n = 0;
    whole.n = whole.first = 0;
    for (int i = 0; i < whole.box.n_axes; i++)
        whole.box.axis[i].first = 0, whole.box.axis[i].n = whole.box.axis[i].global;
    whole.n = shape_n(&whole.box);
    (void)piece_common(p, &whole, count, &n);
    return n;
}

struct piece piece_without_padding(struct piece p) {
    if (p.box.n_axes == 0) return p;
    struct axis *a = &p.box.axis[0];
    int64_t row = a->n ? shape_n(&p.box) / a->n : 0, rows = a->global - a->first;
    if (rows < 0) rows = 0;
    if (rows < a->n) a->n = rows;
    int64_t left = a->n * row - p.first;
    if (left < 0) left = 0;
    if (p.n > left) p.n = left;
    return p;
}
