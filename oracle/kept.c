#include "oracle/kept.h"

#include "lib/base/grow.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

double *kept_add(struct kept *k, const struct kept_piece *p) {
    int64_t n = box_n(&p->box);
    if (k->n_values + n > k->room) {
        int64_t room = 2 * (k->n_values + n);
        double *bigger = realloc(k->values, (size_t)room * sizeof *bigger);
        if (!bigger) return NULL;
        k->values = bigger, k->room = room;
    }
    k->piece = table_grow(k->piece, k->n, sizeof *k->piece);
    k->piece[k->n] = *p;
    k->piece[k->n++].at = k->n_values;
    k->n_values += n;
    k->sorted = false;
    return k->values + k->n_values - n;
}

static enum status no_memory(const char *name) { return FAIL(E_MEMORY, "no memory to keep %s", name); }

enum status kept_add_number(struct kept *k, const char *name, int rank, double value) {
    struct kept_piece p = {.box = {1, {1}, {0}, {1}}, .rank = rank, .parts = 1};
    snprintf(p.name, sizeof p.name, "%s", name);
    double *x = kept_add(k, &p);
    if (!x) return no_memory(name);
    *x = value;
    return OK;
}

/* Copy the box's elements in published order: nested loops of `placed`, the last innermost. */
static void copy_elements(const struct placed *p, const void *data, enum dtype dtype, double scale, double *to) {
    int64_t at[MAX_AXES] = {0}, from = p->offset;
    for (int64_t left = box_n(&p->box); left > 0; left--) {
        *to++ = scale * dtype_get(data, dtype, from);
        for (int i = p->n_loops - 1; i >= 0; i--) {
            from += p->stride[i];
            if (++at[i] < p->count[i]) break;
            from -= p->count[i] * p->stride[i];
            at[i] = 0;
        }
    }
}

enum status kept_add_placed(struct kept *k, const struct placed *placed, const char *suffix, int rank, const void *data,
                            enum dtype dtype, double scale) {
    struct kept_piece p = {.box = placed->box, .rank = rank, .parts = 1};
    snprintf(p.name, sizeof p.name, "%s%s", placed->name, suffix);
    double *x = kept_add(k, &p);
    if (!x) return no_memory(p.name);
    copy_elements(placed, data, dtype, scale, x);
    return OK;
}

void kept_clear(struct kept *k) { k->n = 0, k->n_values = 0; }

void kept_fini(struct kept *k) {
    free(k->piece);
    free(k->values);
    *k = (struct kept){0};
}

/* ---- assembling ---- */
static int by_name(const void *a, const void *b) {
    const struct kept_piece *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order == 0) order = x->part - y->part;
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

int kept_find(struct kept *k, const char *name, int *first) {
    if (!k->sorted) qsort(k->piece, (size_t)k->n, sizeof *k->piece, by_name);
    k->sorted = true;
    int low = 0, high = k->n, n = 0;
    while (low < high) {
        int middle = (low + high) / 2;
        if (strcmp(k->piece[middle].name, name) < 0) low = middle + 1;
        else high = middle;
    }
    while (low + n < k->n && !strcmp(k->piece[low + n].name, name)) n++;
    *first = low;
    return n;
}

/* The last summand of an element: its piece plus 1 (0: none), and its value. n: the summands so far. Pieces are
 * sorted by part, so a summand that two ranks hold comes twice in a row. */
struct seen { int piece, n; double value; };
struct putting { struct whole *w; const struct kept *k; int first, piece; struct seen *seen; double apart, most; };

/* Two ranks with a NaN, or with the same infinity, are alike. */
static void note_apart(struct putting *p, int64_t at, double value) {
    double before = p->seen[at].value, difference = fabs(before - value);
    if (before == value || (isnan(before) && isnan(value))) return;
    if (!(difference > p->apart) && !isnan(difference)) return;
    p->apart = isnan(difference) ? INFINITY : difference;
    p->w->rank = p->k->piece[p->seen[at].piece - 1].rank;
    p->w->other = p->k->piece[p->piece].rank;
}

static enum status put_element(struct putting *p, int64_t at, double value) {
    struct seen *seen = &p->seen[at];
    const struct kept_piece *x = &p->k->piece[p->piece], *before = seen->piece ? x - p->piece + seen->piece - 1 : NULL;
    if (before && before->parts != x->parts)
        return FAIL(E_FORMAT, "%s: rank %d gives a summand of %d, and rank %d one of %d", p->w->name, before->rank,
                    before->parts, x->rank, x->parts);
    if (before && before->part == x->part) {
        note_apart(p, at, value);
        return OK;
    }
    p->w->x[at] += value;
    *seen = (struct seen){p->piece + 1, seen->n + 1, value};
    p->w->missing -= seen->n == x->parts;
    return OK;
}

static enum status put_box(struct putting *p, const double *from) {
    const struct box *b = &p->k->piece[p->piece].box;
    for (int64_t i = 0, n = box_n(b); i < n; i++) TRY(put_element(p, box_place(b, i), from[i]));
    return OK;
}

static bool fits(const struct box *b, const struct box *whole) {
    bool ok = b->n_axes == whole->n_axes;
    for (int a = 0; ok && a < b->n_axes; a++)
        ok = b->of[a] == whole->of[a] && b->first[a] >= 0 && b->n[a] > 0 && b->n[a] <= b->of[a] - b->first[a];
    return ok;
}

static enum status put_all(struct putting *p, int n) {
    struct whole *w = p->w;
    for (p->piece = p->first; p->piece < p->first + n; p->piece++) {
        const struct kept_piece *x = &p->k->piece[p->piece];
        char of[BOX_TEXT_MAX], first[BOX_TEXT_MAX];
        if (!fits(&x->box, &w->box))
            return FAIL(E_FORMAT, "%s: rank %d gives a piece %s, and rank %d one %s; give all pieces the whole "
                        "tensor's shape, and let each lie inside", w->name, x->rank, box_text(&x->box, of),
                        p->k->piece[p->first].rank, box_text(&p->k->piece[p->first].box, first));
        TRY(put_box(p, p->k->values + x->at));
    }
    for (int64_t i = 0; i < w->n; i++) p->most = fmax(p->most, fabs(w->x[i]));
    w->apart = isinf(p->apart) ? INFINITY : p->apart > 0 ? p->apart / (p->most > 0 ? p->most : 1) : 0;
    return OK;
}

/* A piece states how large its tensor is. Memory is limited to 64 times the recorded elements. So one file of 64 ranks
 * can be assembled, but two elements that claim to be of 2^31 cannot. */
static enum status check_size(const struct kept *k, int first, int n, const struct whole *w) {
    enum { MOST_TIMES = 64, SMALL = 1 << 20 };
    int64_t given = 0;
    for (int i = first; i < first + n; i++) given += box_n(&k->piece[i].box);
    if (w->n <= SMALL || w->n / MOST_TIMES <= given) return OK;
    return FAIL(E_FORMAT, "%s: its pieces have %" PRId64 " elements, and say that they are of %" PRId64 "; the limit "
                "is %d times as many as there are: are files of ranks missing?", w->name, given, w->n, MOST_TIMES);
}

enum status kept_whole(struct kept *k, const char *name, struct whole *w) {
    int first, n = kept_find(k, name, &first);
    *w = (struct whole){.name = name};
    if (n == 0) return FAIL(E_DATA, "%s is not recorded", name);
    w->name = k->piece[first].name;
    w->box = box_whole(&k->piece[first].box);
    w->n = w->missing = box_n(&w->box);
    TRY(check_size(k, first, n, w));
    w->x = malloc((size_t)w->n * sizeof *w->x);
    struct putting p = {.w = w, .k = k, .first = first, .seen = calloc((size_t)w->n, sizeof *p.seen)};
    enum status status = w->x && p.seen ? OK : no_memory(name);
    for (int64_t i = 0; status == OK && i < w->n; i++) w->x[i] = 0;
    if (status == OK) status = put_all(&p, n);
    free(p.seen);
    return status;
}

bool kept_sibling(struct kept *k, const char *name, const char *suffix, struct whole *w) {
    char other[PUBLISHED_NAME_MAX + 16];
    const char *dot = strrchr(name, '.');
    int first, n = suffix && dot ? (int)(dot - name) : (int)strlen(name);
    snprintf(other, sizeof other, "%.*s%s", n, name, suffix ? suffix : "");
    *w = (struct whole){.name = NULL};
    if (kept_find(k, other, &first) && kept_whole(k, other, w) == OK && w->missing == 0) return true;
    whole_fini(w);
    status_clear();
    return false;
}

void whole_fini(struct whole *w) {
    free(w->x);
    w->x = NULL;
}
