/* Matrix products on the CPU, by a packed kernel of our own: fp32, and bf16 where the processor multiplies pairs of it.
 *
 * Idea. A tile of C, ROWS x COLUMNS, stays in registers while p runs over the depth: for each p it takes COLUMNS
 * numbers of B and ROWS of A, and makes ROWS * COLUMNS multiply-adds of them (8 x 48: 24 of AVX-512's vectors). That is
 * the FMA units' limit, if what the tile reads next lies next to what it read last, and near. So:
 *
 *   B is packed      in panels of COLUMNS columns, (depth, COLUMNS) each. A few panels, up to 400 KB, fit a core's
 *   second-level cache:
 *                    a thread packs them for itself, and all rows of A pass by.
 *                    Where B is stored by rows, the first tile that reads a whole panel packs it on its way (if the
 *                    depth is one of whole units).
 *   A is not packed  where it is stored by rows: ROWS streams that the processor foretells by itself, read once for
 *   each few panels of B.
 *   Where A is stored transposed (dW = dy^T x), ROWS numbers of a p lie together but those of the next p lie a row
 *   away. Then the
 *                    smaller of A and B is packed whole into `work`, by all threads, and the other a few panels at a
 *                    time.
 *   Memory is asked  for while a tile is made, a little at a time: the rows of A of the next panel, the tile's own part
 *   of C, and what the
 *                    thread packs next; for a tile is all arithmetic, and leaves the memory idle meanwhile. A thread
 *                    therefore knows its next task before it has ended this one.
 *
 * Of bf16 two neighbours in depth are a unit, and a multiply-add takes both. A row of A has them side by side; what is
 * packed is packed in units: in panels (depth / 2, COLUMNS, 2), the last unit of an odd depth filled with a zero. All
 * that follows counts in numbers: a panel of COLUMNS columns and k depths has COLUMNS * padded(k) of them, whatever a
 * unit is. AMX takes 32 depths at once (a CHUNK, filled with zeros too) and wants rows of A, so that where A is stored
 * transposed, packing makes rows of it.
 *
 * Depth is cut in equal passes of at most DEPTH, and a pass adds to what the one before left in C, if C is fp32. If C
 * is bf16, which would round it, all of the depth is one pass; a thread then packs one panel of B at a time where it is
 * more than DEPTH, and in `work`, not on its stack, where it is more than twice that. So
 *
 *   c[i,j] = beta c[i,j] + bias[j] + alpha sum_p a[i,p] b[p,j]  is summed in one order that k and C's type alone fix:
 *
 * no bit of it depends on the number of threads, on m or n, or on which rows and columns of a larger matrix these are.
 *
 * Who includes this defines before what gemm_tile.h lists, once for each kind of product.
 *
 * Source: Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", sections 4 and 6; what is
 * packed and what is not, and by whom, is ours. */
#ifndef TRIVIUM_OPS_GEMM_PACKED_H
#define TRIVIUM_OPS_GEMM_PACKED_H

#include "lib/ops/gemm/gemm.h"
#include "lib/ops/gemm/gemm_tile.h"
#include <omp.h>

enum {
    DEPTH = 1024 * TOGETHER,                         /* of a pass, at most, but where C is bf16 */
    TALLEST = (int)ROWS > 8 ? 64 : 48,               /* rows that a thread packs at a time, where rows are dealt out */
    WIDEST = 2 * TALLEST,                            /* columns that it does, at most: with DEPTH, 393 KB (AMX: 524) */
    TASKS = 4,                                       /* for each thread, where there are rows enough: so that none waits
                                                      * long for the last */
    ALONE = 32 << 10,                                /* multiply-adds that are not worth a second thread */
};
/* A thread's stack holds WIDEST * DEPTH numbers: of groups of columns, of rows, and of one panel twice as deep. */
_Static_assert(WIDEST % (int)COLUMNS == 0 && TALLEST % (int)ROWS == 0 && TALLEST >= (int)COLUMNS &&
                   WIDEST >= 2 * TALLEST && DEPTH % (int)LINE == 0,
               "panels fit their places");

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }
static int64_t padded(int64_t k) { return round_up(k, CHUNK); }

/* One side of a product: the number of its row or column i at depth p lies at at[i stride + p step]. One of the two is
 * 1. */
struct side { const number *at; int64_t n, stride, step; };

struct product {
    struct side a, b;
    int64_t k, pass;                                 /* depth: all of it, and of a pass (the last may be shorter) */
    char *c;
    int64_t ldc, widest;                             /* columns that a thread packs at a time */
    struct ending end;
    number *packed;                                  /* the side that is packed whole, if one is */
    number *deep;                                    /* for each thread what it packs for itself, where its stack is too
                                                      * small */
    int64_t *taken;                                  /* tasks that threads have taken */
};

/* ---- a tile in its place ---- */

/* A tile where the matrix ends before it does: made beside it, so that every number is made the same way. */
static void tile_at_edge(tile_function *whole, int64_t k, const struct operands *operands, char *c, int64_t ldc,
                         struct ending end, const struct ahead *ahead, int64_t rows, int64_t columns) {
    _Alignas(64) char x[ROWS * COLUMNS * sizeof(float)] = {0};
    number bias[COLUMNS] = {0};
    int64_t size = c_size(&end), row = COLUMNS * size;
    size_t bytes = (size_t)(columns * size);
    if (end.beta != 0)
        for (int64_t i = 0; i < rows; i++) memcpy(x + i * row, c + i * ldc * size, bytes);
    if (end.bias) end.bias = memcpy(bias, end.bias, sizeof(number) * (size_t)columns);
    whole(rows, k, operands, x, COLUMNS, &end, ahead);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * ldc * size, x + i * row, bytes);
}

/* A panel of A times one of B, to C from row i, column j on, in the pass that begins at depth p. */
INLINE void panels(const struct product *g, int64_t i, int64_t j, int64_t p, const struct operands *x,
                   const struct ahead *ahead) {
    int64_t rows = smaller(ROWS, g->a.n - i), columns = smaller(COLUMNS, g->b.n - j), k = smaller(g->pass, g->k - p);
    tile_function *function = tile_for(x, rows);
    struct ending end = g->end;
    if (p > 0) end.beta = 1, end.bias = NULL;
    if (end.bias) end.bias += j;
    char *c = g->c + (i * g->ldc + j) * c_size(&end);
    if (columns == COLUMNS && (rows == ROWS || x->a_step == TOGETHER))
        function(rows, k, x, c, g->ldc, &end, ahead);
    else
        tile_at_edge(function, k, x, c, g->ldc, end, ahead, rows, columns);
}

/* ---- packing: panels of `width` rows of A or columns of B, (depth, width) each, zeros where the side has ended
 * ---- */

DEFINE_TRANSPOSE(transpose, vec, lanes, LANES)

/* The last chunk of a panel of `width`, from depth k on. */
static void fill_up(number *panel, int width, int64_t k) {
    int64_t from = round_up(k, TOGETHER) * width;
    memset(panel + from, 0, sizeof(number) * (size_t)(padded(k) * width - from));
}

/* COLUMNS rows of k numbers each, `stride` apart, to (k, COLUMNS). LANES rows after the other: as many streams as the
 * processor foretells. */
static void pack_across(number *restrict out, const number *restrict x, int64_t stride, int64_t k) {
    fill_up(out, COLUMNS, k);
    for (int v = 0; v < VECTORS; v++, x += LANES * stride, out += LANES * TOGETHER) {
        int64_t p = 0;
        for (; p + LANES * TOGETHER <= k; p += LANES * TOGETHER) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = load(x + l * stride + p);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) store(out + (p + l * TOGETHER) * COLUMNS, square[l]);
        }
        for (; p < k; p += TOGETHER)
            for (int l = 0; l < LANES; l++) {
                unit u = unit_at(x + l * stride + p, (int)smaller(TOGETHER, k - p));
                memcpy(out + p * COLUMNS + l * TOGETHER, &u, sizeof u);
            }
    }
}

/* The same of fewer rows, or of fewer than `width`: no hurry. */
static void pack_edge(number *out, int width, const number *x, const struct side *s, int64_t n, int64_t k) {
    for (int64_t p = 0; p < padded(k); p += TOGETHER)
        for (int64_t j = 0; j < width; j++)
            for (int64_t t = 0; t < TOGETHER; t++)
                out[p * width + j * TOGETHER + t] = j < n && p + t < k ? x[j * s->stride + (p + t) * s->step] : 0;
}

/* `there` rows of `width` numbers, to units. */
INLINE void pack_rows(number *restrict out, int width, const number *restrict x, int64_t stride, int there) {
    for (int64_t j = 0; j < width; j++)
#pragma GCC unroll 2
        for (int t = 0; t < TOGETHER; t++) out[j * TOGETHER + t] = t < there ? x[t * stride + j] : 0;
}

/* Rows that lie `stride` apart, to panels of `width` numbers of each. */
INLINE void pack_along(number *restrict out, int width, int64_t panels, const number *restrict x, int64_t stride,
                       int64_t k) {
    int64_t p = 0, panel = padded(k) * width;
    for (int64_t q = 0; q < panels; q++) fill_up(out + q * panel, width, k);
    for (; p + TOGETHER <= k; p += TOGETHER)
#pragma GCC unroll 8
        for (int64_t q = 0; q < panels; q++)
            pack_rows(out + q * panel + p * width, width, x + p * stride + q * width, stride, TOGETHER);
    for (int64_t q = 0; q < panels && p < k; q++)
        pack_rows(out + q * panel + p * width, width, x + p * stride + q * width, stride, (int)(k - p));
}

/* B's columns first .. first + n-1 at depths p .. p + k-1. `rest`: only what tiles do not pack on their way, the panel
 * at B's end. */
static void pack_b(number *out, const struct side *b, int64_t first, int64_t n, int64_t p, int64_t k, bool rest) {
    const number *x = b->at + first * b->stride + p * b->step;
    int64_t full = n / COLUMNS, left = n % COLUMNS, panel = COLUMNS * padded(k);
    for (int64_t q = 0; q < full && !rest; q++) {
        if (b->step == 1)
            pack_across(out + q * panel, x + q * COLUMNS * b->stride, b->stride, k);
        else
            pack_along(out + q * panel, COLUMNS, 1, x + q * COLUMNS, b->step, k);
    }
    if (left) pack_edge(out + full * panel, COLUMNS, x + full * COLUMNS * b->stride, b, left, k);
}

/* n columns of numbers, to rows of padded(k): LANES x LANES units at a time. */
static void pack_to_rows(number *restrict out, const number *restrict x, int64_t step, int64_t n, int64_t k) {
    int64_t rows = n / LANES * LANES, depths = k / (LANES * TOGETHER) * (LANES * TOGETHER), length = padded(k);
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t p = 0; p < depths; p += LANES * TOGETHER) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = unit_rows(x + i + (p + l * TOGETHER) * step, step);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) store(out + (i + l) * length + p, square[l]);
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t p = i < rows ? depths : 0; p < length; p++) out[i * length + p] = p < k ? x[i + p * step] : 0;
}

/* A's rows likewise, where A is stored transposed. */
static void pack_a(number *out, const struct side *a, int64_t first, int64_t n, int64_t p, int64_t k) {
    const number *x = a->at + first + p * a->step;
    if (A_BY_ROWS) {
        pack_to_rows(out, x, a->step, n, k);
        return;
    }
    int64_t full = n / ROWS, left = n % ROWS;
    if (n == TALLEST)
        pack_along(out, ROWS, TALLEST / ROWS, x, a->step, k);
    else
        pack_along(out, ROWS, full, x, a->step, k);
    if (left) pack_edge(out + full * ROWS * padded(k), ROWS, x + full * ROWS, a, left, k);
}

/* ---- what a thread packs for itself: n columns of B, or rows of A, from `first` on, at depths p .. p + k-1 ---- */

struct part { int64_t first, n, p, k; };

static struct part part_of(const struct product *g, const struct side *s, int64_t first, int64_t n, int64_t p) {
    return (struct part){first, smaller(n, s->n - first), p, smaller(g->pass, g->k - p)};
}

/* What a tile asks for when `left` more come before this part is packed. At a line in each LINE depths, tiles as deep
 * as the part ask for all of it in n tiles, the last n; if a row of it is no whole number of lines, in some more. */
INLINE struct ahead ask_for(const struct side *s, const struct part *x, int64_t left) {
    int64_t lines = ceil_div(x->n, LINE), step = x->k / LINE;
    const number *at = s->at + x->first * s->stride + x->p * s->step;
    if (left >= (s->step == 1 ? x->n : lines * LINE)) return (struct ahead){0};
    if (s->step == 1) return (struct ahead){.line = at + left * s->stride, .step = LINE};
    return (struct ahead){.line = at + left % lines * LINE + left / lines * step * s->step, .step = s->step};
}

/* The next task. A thread asks for it so early that it can ask for the memory too, and no earlier, lest another wait at
 * the end. */
static int64_t take(const struct product *g) {
    int64_t task;
#pragma omp atomic capture
    task = (*g->taken)++;
    return task;
}

/* ---- columns of C are dealt out: all rows of A pass by a few panels of B ---- */

/* Tasks: `wide` groups of the widest, `narrow` ones of a panel, then panels whose rows are cut: the last, so that
 * threads end together, or all, where they are too few for the threads. */
struct tasks { int64_t n, wide, narrow, cuts, rows; };
static struct tasks tasks_of(const struct product *g) {
    const int64_t in_group = g->widest / COLUMNS, least_rows = 8 * ROWS;
    int64_t wanted = TASKS * omp_get_num_threads(), panels = ceil_div(g->b.n, COLUMNS),
            wide = g->b.n / g->widest - omp_get_num_threads();
    if (wide < 0) wide = 0;
    if (panels - wide * (in_group - 1) < wanted) wide = 0;
    bool few = panels < wanted;
    int64_t cut = few ? panels : omp_get_num_threads(), narrow = panels - wide * in_group - cut;
    int64_t cuts = smaller(few ? ceil_div(wanted, panels) : TASKS, ceil_div(g->a.n, least_rows)),
            rows = round_up(ceil_div(g->a.n, cuts), ROWS);
    cuts = ceil_div(g->a.n, rows);                   /* rounded up, fewer may do: no task is empty */
    return (struct tasks){wide + narrow + cut * cuts, wide, narrow, cuts, rows};
}

static struct part columns_of(const struct product *g, const struct tasks *t, int64_t task, int64_t p) {
    int64_t panel = task - t->wide;
    if (panel < 0) return part_of(g, &g->b, task * g->widest, g->widest, p);
    if (panel > t->narrow) panel = t->narrow + (panel - t->narrow) / t->cuts;
    return part_of(g, &g->b, t->wide * g->widest + panel * COLUMNS, COLUMNS, p);
}

/* from .. to-1 */
struct rows { int64_t from, to; };
static struct rows rows_of(const struct product *g, const struct tasks *t, int64_t task) {
    int64_t cut = task - t->wide - t->narrow, from = cut % t->cuts * t->rows;
    return cut < 0 ? (struct rows){0, g->a.n} : (struct rows){from, smaller(from + t->rows, g->a.n)};
}

/* B is packed by the tiles that read a panel first, if it lies by rows, and they have all their rows, and all chunks
 * are whole. */
static bool tiles_pack(const struct product *g, struct rows rows) {
    return g->b.step != 1 && rows.to - rows.from >= ROWS && g->k % CHUNK == 0;
}

/* A where it lies from row i, depth p on; or of k packed depths the panel at `packed`. */
static struct operands of_a(const struct product *g, int64_t i, int64_t p) {
    return (struct operands){.a = g->a.at + i * g->a.stride + p, .a_stride = g->a.stride, .a_step = TOGETHER};
}
static struct operands of_packed_a(const number *packed, int64_t k) {
    return (struct operands){.a = packed, .a_stride = A_BY_ROWS ? padded(k) : TOGETHER,
                             .a_step = A_BY_ROWS ? TOGETHER : ROWS * TOGETHER};
}

static struct operands operands_at(const struct product *g, int64_t i, int64_t j, const struct part *now,
                                   number *packed, bool packs) {
    int64_t k = padded(now->k);
    number *panel = packed + j * k;
    struct operands x =
        g->packed ? of_packed_a(g->packed + now->p * round_up(g->a.n, ROWS) + i * k, k) : of_a(g, i, now->p);
    x.b = panel, x.b_step = COLUMNS * TOGETHER;
    if (!packs || j + COLUMNS > now->n) return x;
    x.pack = panel;
    x.b = g->b.at + now->first + j + now->p * g->b.step, x.b_step = g->b.step * TOGETHER;
    return x;
}

/* A pass of a task. `next` is what is packed after it; in the last pass, when it is not known yet, NULL, and *task
 * becomes the next task. */
static void columns_pass(const struct product *g, const struct tasks *t, int64_t *task, struct part now,
                         const struct part *next, number *packed) {
    struct rows rows = rows_of(g, t, *task);
    int64_t left = ceil_div(rows.to - rows.from, ROWS) * ceil_div(now.n, COLUMNS);
    int64_t a_row = g->packed ? padded(now.k) : g->a.stride;   /* a packed panel is as long as ROWS rows of its depth */
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
            if (j + COLUMNS >= now.n && i + 2 * ROWS <= rows.to) ahead.rows = x.a + ROWS * a_row, ahead.stride = a_row;
            panels(g, i, now.first + j, now.p, &x, &ahead);
        }
}

static void deal_columns(const struct product *g, number *mine) {
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
static void rows_pass(const struct product *g, const struct parts *t, int64_t *task, struct part now,
                      const struct part *next, number *packed) {
    int64_t columns = round_up(g->b.n, COLUMNS), left = ceil_div(now.n, ROWS) * (columns / COLUMNS), k = padded(now.k);
    struct part after;
    for (int64_t j = 0; j < g->b.n; j += COLUMNS)
        for (int64_t i = 0; i < now.n; i += ROWS) {
            struct operands x = of_packed_a(packed + i * k, k);
            x.b = g->packed + now.p * columns + j * k, x.b_step = COLUMNS * TOGETHER;
            struct ahead ahead = {0};
            if (--left < TALLEST * TOGETHER && !next) {
                *task = take(g);
                after = part_of_rows(g, t, *task, 0);
                next = &after;
            }
            if (next) ahead = ask_for(&g->a, next, left);
            /* of B's next panel, as long as COLUMNS rows of its depth, ROWS of them */
            if (j + COLUMNS < g->b.n) ahead.rows = x.b + (COLUMNS + i) * k, ahead.stride = k;
            panels(g, now.first + i, j, now.p, &x, &ahead);
        }
}

static void deal_rows(const struct product *g, number *mine) {
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
    int64_t some = is_a ? TALLEST : COLUMNS, all = round_up(s->n, is_a ? ROWS : COLUMNS);
#pragma omp for collapse(2)
    for (int64_t p = 0; p < g->k; p += g->pass)
        for (int64_t first = 0; first < s->n; first += some) {
            int64_t k = smaller(g->pass, g->k - p);
            number *to = g->packed + p * all + first * padded(k);
            if (is_a)
                pack_a(to, s, first, smaller(some, s->n - first), p, k);
            else
                pack_b(to, s, first, smaller(some, s->n - first), p, k, false);
        }
}

/* ---- the product ---- */

/* Numbers of `work`: of the side that is packed whole; behind them, of what threads pack for themselves. */
static int64_t packed_numbers(const struct gemm *g) {
    const int64_t padding = TALLEST;                 /* at least any machine's ROWS and COLUMNS, less one */
    return g->transpose_a ? round_up(padded(g->k) * (smaller(g->m, g->n) + padding), LINE) : 0;
}
static int64_t work_numbers(const struct gemm *g, int n_threads) {
    bool deep = TOGETHER > 1 && g->k > 2 * DEPTH;
    return packed_numbers(g) + (deep ? n_threads * TALLEST * padded(g->k) : 0);
}

static void product(const struct gemm *g, const number *a, int64_t lda, const number *b, int64_t ldb,
                    const number *bias, void *c, int64_t ldc, number *work) {
    bool wide = g->c_dtype == FP32;
    int64_t taken = 0, passes = wide && g->k > DEPTH ? ceil_div(g->k, DEPTH) : 1;
    struct product x = {.a = {a, g->m, g->transpose_a ? 1 : lda, g->transpose_a ? lda : 1},
                        .b = {b, g->n, g->transpose_b ? ldb : 1, g->transpose_b ? 1 : ldb},
                        .k = g->k,
                        .pass = g->k > 0 ? round_up(ceil_div(g->k, passes), LINE) : 1,
                        .c = c,
                        .ldc = ldc,
                        .end = {(float)g->alpha, (float)g->beta, bias, wide},
                        .taken = &taken};
    bool rows = g->transpose_a && g->m >= g->n;
    x.widest = x.pass > DEPTH ? COLUMNS : WIDEST;
    if (g->transpose_a) x.packed = work;
    if (x.pass > 2 * DEPTH) x.deep = work + packed_numbers(g);
#pragma omp parallel if (g->m * g->n * g->k > ALONE)
    {
        _Alignas(64) number near[WIDEST * DEPTH];
        number *mine = x.deep ? x.deep + omp_get_thread_num() * TALLEST * padded(g->k) : near;
        if (x.packed) pack_whole(&x, !rows);
        before_tiles();
        if (rows)
            deal_rows(&x, mine);
        else
            deal_columns(&x, mine);
        after_tiles();
    }
}

#endif
