#include "lib/ops/gemm_fp32.h"

#include "lib/ops/gemm_fp32_tile.h"
#include <omp.h>
#include <string.h>

enum {
    DEPTH = 1024,                                    /* of a pass, at most */
    WIDEST = 96,                                     /* columns that a thread packs at a time, at most: with DEPTH, 393 KB */
    TALLEST = 48,                                    /* rows that it does, where rows are dealt out */
    TASKS = 4,                                       /* for each thread, where there are rows enough: so that none waits long for the last */
    ALONE = 32 << 10,                                /* multiply-adds that are not worth a second thread */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* One side of a product: the number of its row or column i at depth p lies at at[i stride + p step]. One of the two is 1. */
struct side { const float *at; int64_t n, stride, step; };

struct product {
    struct side a, b;
    int64_t k, pass;                                 /* depth: all of it, and of a pass (the last may be shorter) */
    float *c;
    int64_t ldc;
    struct ending end;
    float *packed;                                   /* the side that is packed whole, if one is */
    int64_t *taken;                                  /* tasks that threads have taken */
};

/* ---- a tile in its place ---- */

/* A tile where the matrix ends before it does: made beside it, so that every number is made the same way. */
static void tile_at_edge(tile_function *whole, int64_t k, const struct operands *operands, float *c, int64_t ldc, struct ending end,
                         const struct ahead *ahead, int64_t rows, int64_t columns) {
    float x[ROWS * COLUMNS] = {0}, bias[COLUMNS] = {0};
    size_t bytes = sizeof(float) * (size_t)columns;
    if (end.beta != 0)
        for (int64_t i = 0; i < rows; i++) memcpy(x + i * COLUMNS, c + i * ldc, bytes);
    if (end.bias) end.bias = memcpy(bias, end.bias, bytes);
    whole(k, operands, x, COLUMNS, &end, ahead);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * ldc, x + i * COLUMNS, bytes);
}

/* A panel of A times one of B, to C from row i, column j on, in the pass that begins at depth p. */
INLINE void panels(const struct product *g, int64_t i, int64_t j, int64_t p, const struct operands *x, const struct ahead *ahead) {
    int64_t rows = smaller(ROWS, g->a.n - i), columns = smaller(COLUMNS, g->b.n - j), k = smaller(g->pass, g->k - p);
    tile_function *function = tile_for(x, rows);
    struct ending end = g->end;
    if (p > 0) end.beta = 1, end.bias = NULL;
    if (end.bias) end.bias += j;
    float *c = g->c + i * g->ldc + j;
    if (columns == COLUMNS && (rows == ROWS || x->a_step == 1))
        function(k, x, c, g->ldc, &end, ahead);
    else
        tile_at_edge(function, k, x, c, g->ldc, end, ahead, rows, columns);
}

/* ---- packing: panels of `width` rows of A or columns of B, (depth, width) each, zeros where the side has ended ---- */

typedef int32_t lanes __attribute__((vector_size(4 * LANES)));
DEFINE_TRANSPOSE(transpose, vec, lanes, LANES)

/* COLUMNS rows of k numbers each, `stride` apart, to (k, COLUMNS). LANES rows after the other: as many streams as the processor foretells. */
static void pack_across(float *restrict out, const float *restrict x, int64_t stride, int64_t k) {
    for (int v = 0; v < VECTORS; v++, x += LANES * stride, out += LANES) {
        int64_t p = 0;
        for (; p + LANES <= k; p += LANES) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = *(const loose_vec *)(x + l * stride + p);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) *(loose_vec *)(out + (p + l) * COLUMNS) = square[l];
        }
        for (; p < k; p++)
            for (int l = 0; l < LANES; l++) out[p * COLUMNS + l] = x[l * stride + p];
    }
}

/* The same of fewer rows, or of fewer than `width`: no hurry. */
static void pack_edge(float *out, int width, const float *x, const struct side *s, int64_t n, int64_t k) {
    for (int64_t p = 0; p < k; p++)
        for (int64_t j = 0; j < width; j++) out[p * width + j] = j < n ? x[j * s->stride + p * s->step] : 0;
}

/* Rows that lie `stride` apart, to panels of `width` numbers of each. */
INLINE void pack_along(float *restrict out, int width, int64_t panels, const float *restrict x, int64_t stride, int64_t k) {
    for (int64_t p = 0; p < k; p++)
#pragma GCC unroll 8
        for (int64_t q = 0; q < panels; q++) memcpy(out + (q * k + p) * width, x + p * stride + q * width, sizeof(float) * (size_t)width);
}

/* B's columns first .. first + n-1 at depths p .. p + k-1. `rest`: only what tiles do not pack on their way, the panel at B's end. */
static void pack_b(float *out, const struct side *b, int64_t first, int64_t n, int64_t p, int64_t k, bool rest) {
    const float *x = b->at + first * b->stride + p * b->step;
    int64_t full = n / COLUMNS, left = n % COLUMNS;
    for (int64_t q = 0; q < full && !rest; q++) {
        if (b->step == 1)
            pack_across(out + q * COLUMNS * k, x + q * COLUMNS * b->stride, b->stride, k);
        else
            pack_along(out + q * COLUMNS * k, COLUMNS, 1, x + q * COLUMNS, b->step, k);
    }
    if (left) pack_edge(out + full * COLUMNS * k, COLUMNS, x + full * COLUMNS * b->stride, b, left, k);
}

/* A's rows likewise, where A is stored transposed. */
static void pack_a(float *out, const struct side *a, int64_t first, int64_t n, int64_t p, int64_t k) {
    const float *x = a->at + first + p * a->step;
    int64_t full = n / ROWS, left = n % ROWS;
    if (n == TALLEST)
        pack_along(out, ROWS, TALLEST / ROWS, x, a->step, k);
    else
        pack_along(out, ROWS, full, x, a->step, k);
    if (left) pack_edge(out + full * ROWS * k, ROWS, x + full * ROWS, a, left, k);
}

/* ---- what a thread packs for itself: n columns of B, or rows of A, from `first` on, at depths p .. p + k-1 ---- */

struct part { int64_t first, n, p, k; };

static struct part part_of(const struct product *g, const struct side *s, int64_t first, int64_t n, int64_t p) {
    return (struct part){first, smaller(n, s->n - first), p, smaller(g->pass, g->k - p)};
}

/* What a tile asks for when `left` more come before this part is packed. At a line in each LINE depths, tiles as deep as the part ask for
 * all of it (but what does not fill a line) in n tiles: the last n. */
INLINE struct ahead ask_for(const struct side *s, const struct part *x, int64_t left) {
    int64_t lines = x->n / LINE, step = x->k / LINE;
    const float *at = s->at + x->first * s->stride + x->p * s->step;
    if (left >= lines * LINE) return (struct ahead){0};
    if (s->step == 1) return (struct ahead){.line = at + left * s->stride, .step = LINE};
    return (struct ahead){.line = at + left % lines * LINE + left / lines * step * s->step, .step = s->step};
}

/* The next task. A thread asks for it so early that it can ask for the memory too, and no earlier, lest another wait at the end. */
static int64_t take(const struct product *g) {
    int64_t task;
#pragma omp atomic capture
    task = (*g->taken)++;
    return task;
}

/* ---- columns of C are dealt out: all rows of A pass by a few panels of B ---- */

/* Tasks: `wide` groups of WIDEST columns, `narrow` ones of a panel, then panels whose rows are cut: the last, so that threads end together, or
 * all, where they are too few for the threads. */
struct tasks { int64_t n, wide, narrow, cuts, rows; };
static struct tasks tasks_of(const struct product *g) {
    const int64_t in_group = WIDEST / COLUMNS, least_rows = 8 * ROWS;
    int64_t wanted = TASKS * omp_get_num_threads(), panels = ceil_div(g->b.n, COLUMNS), wide = g->b.n / WIDEST - omp_get_num_threads();
    if (wide < 0) wide = 0;
    if (panels - wide * (in_group - 1) < wanted) wide = 0;
    bool few = panels < wanted;
    int64_t cut = few ? panels : omp_get_num_threads(), narrow = panels - wide * in_group - cut;
    int64_t cuts = smaller(few ? ceil_div(wanted, panels) : TASKS, ceil_div(g->a.n, least_rows)), rows = round_up(ceil_div(g->a.n, cuts), ROWS);
    cuts = ceil_div(g->a.n, rows);                   /* rounded up, fewer may do: no task is empty */
    return (struct tasks){wide + narrow + cut * cuts, wide, narrow, cuts, rows};
}

static struct part columns_of(const struct product *g, const struct tasks *t, int64_t task, int64_t p) {
    int64_t panel = task - t->wide;
    if (panel < 0) return part_of(g, &g->b, task * WIDEST, WIDEST, p);
    if (panel > t->narrow) panel = t->narrow + (panel - t->narrow) / t->cuts;
    return part_of(g, &g->b, t->wide * WIDEST + panel * COLUMNS, COLUMNS, p);
}

/* from .. to-1 */
struct rows { int64_t from, to; };
static struct rows rows_of(const struct product *g, const struct tasks *t, int64_t task) {
    int64_t cut = task - t->wide - t->narrow, from = cut % t->cuts * t->rows;
    return cut < 0 ? (struct rows){0, g->a.n} : (struct rows){from, smaller(from + t->rows, g->a.n)};
}

/* B is packed by the tiles that read a panel first, if that is copying, and they have all their rows. */
static bool tiles_pack(const struct product *g, struct rows rows) { return g->b.step != 1 && rows.to - rows.from >= ROWS; }

/* A panel of A: packed whole in `packed`, pass after pass, or where it is. */
static const float *a_panel(const struct product *g, int64_t i, int64_t p, int64_t k) {
    return g->packed ? g->packed + p * round_up(g->a.n, ROWS) + i * k : g->a.at + i * g->a.stride + p;
}

static struct operands operands_at(const struct product *g, int64_t i, int64_t j, const struct part *now, float *packed, bool packs) {
    const float *a = a_panel(g, i, now->p, now->k);
    struct operands x = {a, g->packed ? 1 : g->a.stride, g->packed ? ROWS : 1, packed + j * now->k, COLUMNS, NULL};
    if (!packs || j + COLUMNS > now->n) return x;
    x.pack = packed + j * now->k;
    x.b = g->b.at + now->first + j + now->p * g->b.step, x.b_step = g->b.step;
    return x;
}

/* A pass of a task. `next` is what is packed after it; in the last pass, when it is not known yet, NULL, and *task becomes the next task. */
static void columns_pass(const struct product *g, const struct tasks *t, int64_t *task, struct part now, const struct part *next, float *packed) {
    struct rows rows = rows_of(g, t, *task);
    int64_t left = ceil_div(rows.to - rows.from, ROWS) * ceil_div(now.n, COLUMNS);
    struct part after;
    for (int64_t i = rows.from; i < rows.to; i += ROWS)
        for (int64_t j = 0; j < now.n; j += COLUMNS) {
            struct operands x = operands_at(g, i, j, &now, packed, i == rows.from && tiles_pack(g, rows));
            struct ahead ahead = {0};
            if (--left < WIDEST && !next) {
                *task = take(g);
                after = columns_of(g, t, *task, 0);
                next = &after;
            }
            if (next) ahead = ask_for(&g->b, next, left);
            if (j + COLUMNS >= now.n && !g->packed && i + 2 * ROWS <= rows.to) ahead.rows = x.a + ROWS * g->a.stride, ahead.stride = g->a.stride;
            panels(g, i, now.first + j, now.p, &x, &ahead);
        }
}

static void deal_columns(const struct product *g) {
    _Alignas(64) float mine[WIDEST * DEPTH];
    struct tasks t = tasks_of(g);
    for (int64_t task = take(g); task < t.n;)        /* the last pass of a task takes the next */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->pass) {
            struct part now = columns_of(g, &t, task, p), next = columns_of(g, &t, task, p + g->pass);
            pack_b(mine, &g->b, now.first, now.n, p, now.k, tiles_pack(g, rows_of(g, &t, task)));
            columns_pass(g, &t, &task, now, p + g->pass < end ? &next : NULL, mine);
        }
}

/* ---- rows of C are dealt out: A is stored transposed, B is packed whole and passes by a few panels of A ---- */

/* Tasks: `whole` parts of TALLEST rows, then of `size`, so that threads end together. */
struct parts { int64_t whole, size; };
static struct parts parts_of(const struct product *g) {
    int64_t threads = omp_get_num_threads(), whole = g->a.n / TALLEST - threads;
    return (struct parts){whole > 0 ? whole : 0, smaller(TALLEST / 2, round_up(ceil_div(g->a.n, threads), ROWS))};
}

/* Behind the last task: no rows, or fewer than none. */
static struct part part_of_rows(const struct product *g, const struct parts *t, int64_t task, int64_t p) {
    if (task < t->whole) return part_of(g, &g->a, task * TALLEST, TALLEST, p);
    return part_of(g, &g->a, t->whole * TALLEST + (task - t->whole) * t->size, t->size, p);
}

/* As columns_pass. */
static void rows_pass(const struct product *g, const struct parts *t, int64_t *task, struct part now, const struct part *next, float *packed) {
    int64_t padded = round_up(g->b.n, COLUMNS), left = ceil_div(now.n, ROWS) * (padded / COLUMNS);
    struct part after;
    for (int64_t j = 0; j < g->b.n; j += COLUMNS)
        for (int64_t i = 0; i < now.n; i += ROWS) {
            struct operands x = {packed + i * now.k, 1, ROWS, g->packed + now.p * padded + j * now.k, COLUMNS, NULL};
            struct ahead ahead = {0};
            if (--left < TALLEST && !next) {
                *task = take(g);
                after = part_of_rows(g, t, *task, 0);
                next = &after;
            }
            if (next) ahead = ask_for(&g->a, next, left);
            panels(g, now.first + i, j, now.p, &x, &ahead);
        }
}

static void deal_rows(const struct product *g) {
    _Alignas(64) float mine[TALLEST * DEPTH];
    struct parts t = parts_of(g);
    for (int64_t task = take(g); part_of_rows(g, &t, task, 0).n > 0;)   /* as above */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->pass) {
            struct part now = part_of_rows(g, &t, task, p), next = part_of_rows(g, &t, task, p + g->pass);
            pack_a(mine, &g->a, now.first, now.n, p, now.k);
            rows_pass(g, &t, &task, now, p + g->pass < end ? &next : NULL, mine);
        }
}

/* The smaller side, by all threads, pass after pass. */
static void pack_whole(const struct product *g, bool is_a) {
    const struct side *s = is_a ? &g->a : &g->b;
    int64_t some = is_a ? TALLEST : COLUMNS, padded = round_up(s->n, is_a ? ROWS : COLUMNS);
#pragma omp for collapse(2)
    for (int64_t p = 0; p < g->k; p += g->pass)
        for (int64_t first = 0; first < s->n; first += some) {
            int64_t k = smaller(g->pass, g->k - p);
            float *to = g->packed + p * padded + first * k;
            if (is_a)
                pack_a(to, s, first, smaller(some, s->n - first), p, k);
            else
                pack_b(to, s, first, smaller(some, s->n - first), p, k, false);
        }
}

/* ---- the product ---- */

int64_t gemm_fp32_work(const struct gemm *g) {
    const int64_t padding = TALLEST;                 /* at least any machine's ROWS and COLUMNS, less one */
    return g->transpose_a ? (int64_t)sizeof(float) * g->k * (smaller(g->m, g->n) + padding) : 0;
}

void gemm_fp32_run(const struct gemm *g, const float *a, int64_t lda, const float *b, int64_t ldb, const float *bias, float *c, int64_t ldc,
                   void *work) {
    struct product x = {.a = {a, g->m, g->transpose_a ? 1 : lda, g->transpose_a ? lda : 1},
                        .b = {b, g->n, g->transpose_b ? ldb : 1, g->transpose_b ? 1 : ldb},
                        .k = g->k,
                        .c = c,
                        .ldc = ldc,
                        .end = {(float)g->alpha, (float)g->beta, bias}};
    int64_t taken = 0, passes = g->k > DEPTH ? ceil_div(g->k, DEPTH) : 1, bytes = gemm_fp32_work(g);
    bool rows = g->transpose_a && g->m >= g->n;
    x.taken = &taken;
    x.pass = g->k > 0 ? round_up(ceil_div(g->k, passes), LINE) : 1;
    if (bytes > 0) {
        x.packed = work;
        memset((char *)work + bytes - sizeof(float), 0, sizeof(float));
    }
#pragma omp parallel if (g->m * g->n * g->k > ALONE)
    {
        if (x.packed) pack_whole(&x, !rows);
        if (rows)
            deal_rows(&x);
        else
            deal_columns(&x);
    }
}
