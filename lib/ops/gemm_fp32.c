#include "lib/ops/gemm_fp32.h"

#include <omp.h>
#include <string.h>

/* The tile, by the registers that there are: accumulators, a row of B, and one of A. */
#if defined __AVX512F__
enum { LANES = 16, ROWS = 8, VECTORS = 3 };          /* 32 registers: 24 + 3 + 1 */
#elif defined __AVX__
enum { LANES = 8, ROWS = 6, VECTORS = 2 };           /* 16 registers: 12 + 2 + 1 */
#elif defined __aarch64__
enum { LANES = 4, ROWS = 8, VECTORS = 3 };           /* 32 registers: 24 + 3 + 1 */
#else
enum { LANES = 4, ROWS = 6, VECTORS = 2 };
#endif
enum {
    COLUMNS = LANES * VECTORS,
    DEPTH = 1024,                                    /* of a pass, at most */
    WIDEST = 96,                                     /* columns that a thread packs at a time, at most: with DEPTH, 393 KB */
    TALLEST = 48,                                    /* rows that it does, where rows are dealt out */
    TASKS = 4,                                       /* for each thread, so that none waits long for the last */
    ALONE = 32 << 10,                                /* multiply-adds that are not worth a second thread */
    LINE = 16,                                       /* numbers in a line of the caches */
    SOON = 16,                                       /* lines of depth before a tile's end it has asked for its part of C, if it is deep enough */
};

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose_vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t lanes __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))
static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

/* One side of a product: the number of its row or column i at depth p lies at at[i stride + p step]. One of the two is 1. */
struct side { const float *at; int64_t n, stride, step; };

/* What becomes of a sum: c = alpha sum + bias + beta c. */
struct ending { float alpha, beta; const float *bias; };

struct product {
    struct side a, b;
    int64_t k, pass;                                 /* depth: all of it, and of a pass (the last may be shorter) */
    float *c;
    int64_t ldc;
    struct ending end;
    float *packed;                                   /* the side that is packed whole, if one is */
    int64_t *taken;                                  /* tasks that threads have taken */
};

/* ---- a tile ---- */

/* What a tile asks for while it is made, so that it is near when it is wanted: every LINE depths a line of each of ROWS rows of A (the
 * next panel), and one line of what is packed next. NULL: nothing. Little by little, for whatever is asked for in a heap holds up B. */
struct ahead { const float *rows; int64_t stride; const float *line; int64_t step; };

INLINE void ask(const struct ahead *x, int64_t lines) {
    if (x->rows)
#pragma GCC unroll 8
        for (int i = 0; i < ROWS; i++) __builtin_prefetch(x->rows + i * x->stride + lines * LINE);
    if (x->line) __builtin_prefetch(x->line + lines * x->step);
}

/* The sums at one depth: a row of B, and ROWS numbers of A. Rows of A from ROWS / 2 on have a base of their own: eight are more than
 * addresses reach from one. */
INLINE void add_products(vec sum[ROWS][VECTORS], int rows, const float *a, const float *lower, int64_t stride, const float *b) {
    vec row[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++) row[v] = *(const loose_vec *)(b + v * LANES);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] += (i < ROWS / 2 ? a[i * stride] : lower[(i - ROWS / 2) * stride]) * row[v];
}

/* rows x COLUMNS of C; a[i,p] at a[i stride + p step], b packed. Called with constant rows, so that sums are registers. */
INLINE void tile(int rows, int64_t k, const float *restrict a, int64_t stride, int64_t step, const float *restrict b, float *restrict c,
                 int64_t ldc, const struct ending *end, const struct ahead *ahead) {
    vec sum[ROWS][VECTORS];
    const float *lower = a + ROWS / 2 * stride;
    int64_t lines = k / LINE, ask_for_c = lines > rows + SOON ? lines - rows - SOON : 0;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] = (vec){0};
    for (int64_t l = 0; l < lines; l++) {
        ask(ahead, l);
        if (l >= ask_for_c && l < ask_for_c + rows)
#pragma GCC unroll 3
            for (int j = 0; j < COLUMNS; j += LINE) __builtin_prefetch(c + (l - ask_for_c) * ldc + j, 1);
#pragma GCC unroll 4
        for (int q = 0; q < LINE; q++, a += step, lower += step, b += COLUMNS) add_products(sum, rows, a, lower, stride, b);
    }
    for (int64_t p = lines * LINE; p < k; p++, a += step, lower += step, b += COLUMNS) add_products(sum, rows, a, lower, stride, b);
    if (end->alpha != 1)                             /* apart, so that no compiler makes one rounding of this and the next in some tiles only */
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++) sum[i][v] *= end->alpha;
    float beta = end->beta;
    const float *bias = end->bias;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            loose_vec *to = (loose_vec *)(c + i * ldc + v * LANES);
            vec x = sum[i][v];
            if (bias) x += *(const loose_vec *)(bias + v * LANES);
            if (beta != 0) x += beta * *to;
            *to = x;
        }
}

typedef void tile_function(int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc, const struct ending *,
                           const struct ahead *);
#define TILE_OF(rows)                                                                                                              \
    static void tile_##rows(int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc, const struct ending *end,  \
                            const struct ahead *ahead) {                                                                           \
        tile(rows, k, a, stride, 1, b, c, ldc, end, ahead);                                                                        \
    }
TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6)
#if defined __AVX512F__ || defined __aarch64__
TILE_OF(7) TILE_OF(8)
static tile_function *const tile_by_rows[ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6, tile_7, tile_8};
#else
static tile_function *const tile_by_rows[ROWS + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
#endif
static void tile_packed(int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc, const struct ending *end,
                        const struct ahead *ahead) {
    (void)stride;
    tile(ROWS, k, a, 1, ROWS, b, c, ldc, end, ahead);
}

/* The same where the matrix ends before the tile does: beside it, so that every number is made the same way. */
static void tile_at_edge(tile_function *whole, int64_t k, const float *a, int64_t stride, const float *b, float *c, int64_t ldc,
                         struct ending end, const struct ahead *ahead, int64_t rows, int64_t columns) {
    float x[ROWS * COLUMNS] = {0}, bias[COLUMNS] = {0};
    size_t bytes = sizeof(float) * (size_t)columns;
    if (end.beta != 0)
        for (int64_t i = 0; i < rows; i++) memcpy(x + i * COLUMNS, c + i * ldc, bytes);
    if (end.bias) end.bias = memcpy(bias, end.bias, bytes);
    whole(k, a, stride, b, x, COLUMNS, &end, ahead);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * ldc, x + i * COLUMNS, bytes);
}

/* A panel of A times one of B, to C from row i, column j on, in the pass that begins at depth p. `stride` of A's rows; 0: it is packed. */
INLINE void panels(const struct product *g, int64_t i, int64_t j, int64_t p, const float *a, int64_t stride, const float *b,
                   const struct ahead *ahead) {
    int64_t rows = smaller(ROWS, g->a.n - i), columns = smaller(COLUMNS, g->b.n - j), k = smaller(g->pass, g->k - p);
    tile_function *function = stride > 0 ? tile_by_rows[rows] : tile_packed;
    struct ending end = g->end;
    if (p > 0) end.beta = 1, end.bias = NULL;
    if (end.bias) end.bias += j;
    float *c = g->c + i * g->ldc + j;
    if (columns == COLUMNS && (rows == ROWS || stride > 0))
        function(k, a, stride, b, c, g->ldc, &end, ahead);
    else
        tile_at_edge(function, k, a, stride, b, c, g->ldc, end, ahead, rows, columns);
}

/* ---- packing: panels of `width` rows of A or columns of B, (depth, width) each, zeros where the side has ended ---- */

/* LANES vectors, transposed: log2 LANES times, vector i and i + LANES/2 are interleaved into 2i and 2i + 1. */
INLINE void transpose(vec x[LANES]) {
    lanes low, high;
    vec y[LANES];
#pragma GCC unroll 16
    for (int l = 0; l < LANES; l++) low[l] = l / 2 + l % 2 * LANES, high[l] = low[l] + LANES / 2;
#pragma GCC unroll 4
    for (int stage = 1; stage < LANES; stage *= 2) {
#pragma GCC unroll 8
        for (int i = 0; i < LANES / 2; i++) {
            y[2 * i] = __builtin_shuffle(x[i], x[i + LANES / 2], low);
            y[2 * i + 1] = __builtin_shuffle(x[i], x[i + LANES / 2], high);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) x[i] = y[i];
    }
}

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

/* B's columns first .. first + n-1 at depths p .. p + k-1 */
static void pack_b(float *out, const struct side *b, int64_t first, int64_t n, int64_t p, int64_t k) {
    const float *x = b->at + first * b->stride + p * b->step;
    int64_t full = n / COLUMNS, left = n % COLUMNS;
    if (b->step == 1)
        for (int64_t q = 0; q < full; q++) pack_across(out + q * COLUMNS * k, x + q * COLUMNS * b->stride, b->stride, k);
    else
        for (int64_t q = 0; q < full; q++) pack_along(out + q * COLUMNS * k, COLUMNS, 1, x + q * COLUMNS, b->step, k);
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

/* Tasks: `wide` groups of WIDEST columns, then groups of COLUMNS, so that threads end together. Where that leaves threads idle, each group's
 * rows are cut. */
struct tasks { int64_t n, wide, rows, cuts; };
static struct tasks tasks_of(const struct product *g) {
    int64_t threads = omp_get_num_threads(), wide = g->b.n / WIDEST - threads, cuts = 1;
    if (wide < 0 || wide + ceil_div(g->b.n - wide * WIDEST, COLUMNS) < TASKS * threads) wide = 0;
    int64_t groups = wide + ceil_div(g->b.n - wide * WIDEST, COLUMNS);
    if (groups < TASKS * threads) cuts = smaller(ceil_div(TASKS * threads, groups), ceil_div(g->a.n, 8 * ROWS));
    int64_t rows = round_up(ceil_div(g->a.n, cuts), ROWS);
    cuts = ceil_div(g->a.n, rows);                   /* rounded up, fewer may do: no task is empty */
    return (struct tasks){groups * cuts, wide, rows, cuts};
}

static struct part columns_of(const struct product *g, const struct tasks *t, int64_t task, int64_t p) {
    int64_t group = task / t->cuts, narrow = group - t->wide;
    if (narrow < 0) return part_of(g, &g->b, group * WIDEST, WIDEST, p);
    return part_of(g, &g->b, t->wide * WIDEST + narrow * COLUMNS, COLUMNS, p);
}

/* A panel of A: packed whole in `packed`, pass after pass, or where it is. */
static const float *a_panel(const struct product *g, int64_t i, int64_t p, int64_t k) {
    return g->packed ? g->packed + p * round_up(g->a.n, ROWS) + i * k : g->a.at + i * g->a.stride + p;
}

/* A pass of a task: rows from .. to-1. `next` is what is packed after it; in the last pass, when it is not known yet, NULL, and *task becomes
 * the next task. */
static void columns_pass(const struct product *g, const struct tasks *t, int64_t *task, struct part now, const struct part *next,
                         const float *packed) {
    int64_t from = *task % t->cuts * t->rows, to = smaller(from + t->rows, g->a.n), left = ceil_div(to - from, ROWS) * ceil_div(now.n, COLUMNS);
    struct part after;
    for (int64_t i = from; i < to; i += ROWS)
        for (int64_t j = 0; j < now.n; j += COLUMNS) {
            struct ahead ahead = {0};
            if (--left < WIDEST && !next) {
                *task = take(g);
                after = columns_of(g, t, *task, 0);
                next = &after;
            }
            if (next) ahead = ask_for(&g->b, next, left);
            if (j + COLUMNS >= now.n && !g->packed && i + 2 * ROWS <= to) ahead.rows = a_panel(g, i + ROWS, now.p, now.k), ahead.stride = g->a.stride;
            panels(g, i, now.first + j, now.p, a_panel(g, i, now.p, now.k), g->packed ? 0 : g->a.stride, packed + j * now.k, &ahead);
        }
}

static void deal_columns(const struct product *g) {
    _Alignas(64) float mine[WIDEST * DEPTH];
    struct tasks t = tasks_of(g);
    for (int64_t task = take(g); task < t.n;)        /* the last pass of a task takes the next */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->pass) {
            struct part now = columns_of(g, &t, task, p), next = columns_of(g, &t, task, p + g->pass);
            pack_b(mine, &g->b, now.first, now.n, p, now.k);
            columns_pass(g, &t, &task, now, p + g->pass < end ? &next : NULL, mine);
        }
}

/* ---- rows of C are dealt out: A is stored transposed, B is packed whole and passes by a few panels of A ---- */

/* As columns_pass; a task is `size` rows. */
static void rows_pass(const struct product *g, int64_t size, int64_t *task, struct part now, const struct part *next, const float *packed) {
    int64_t padded = round_up(g->b.n, COLUMNS), left = ceil_div(now.n, ROWS) * (padded / COLUMNS);
    struct part after;
    for (int64_t j = 0; j < g->b.n; j += COLUMNS)
        for (int64_t i = 0; i < now.n; i += ROWS) {
            struct ahead ahead = {0};
            if (--left < TALLEST && !next) {
                *task = take(g);
                after = part_of(g, &g->a, *task * size, size, 0);
                next = &after;
            }
            if (next) ahead = ask_for(&g->a, next, left);
            panels(g, now.first + i, j, now.p, packed + i * now.k, 0, g->packed + now.p * padded + j * now.k, &ahead);
        }
}

static void deal_rows(const struct product *g) {
    _Alignas(64) float mine[TALLEST * DEPTH];
    int64_t parts = round_up(ceil_div(g->a.n, TALLEST), omp_get_num_threads()), size = round_up(ceil_div(g->a.n, parts), ROWS);
    for (int64_t task = take(g); task * size < g->a.n;)   /* as above */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->pass) {
            struct part now = part_of(g, &g->a, task * size, size, p), next = part_of(g, &g->a, task * size, size, p + g->pass);
            pack_a(mine, &g->a, now.first, now.n, p, now.k);
            rows_pass(g, size, &task, now, p + g->pass < end ? &next : NULL, mine);
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
            (is_a ? pack_a : pack_b)(g->packed + p * padded + first * k, s, first, smaller(some, s->n - first), p, k);
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
