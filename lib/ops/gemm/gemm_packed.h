/* A fast matrix product for CPUs: fp32, and bf16 where the processor multiplies pairs of it. It computes the same
 * product as the loops of gemm_plain_cpu.c (`--gemm plain`), so you need not read it to use Trivium.
 *
 * The words and the loops are those of BLIS (Goto's algorithm):
 *
 *   micro-tile    MR x NR numbers of C that stay in registers while p runs over the depth. For each p the micro-kernel
 *                 reads MR numbers of A and NR of B, and does MR * NR multiply-adds: a rank-1 update. 8 x 48 are 24
 *                 vectors of AVX-512. If the next numbers are in a near cache, the FMA units are the limit.
 *   micro-panel   the part of a side that one micro-kernel reads: MR rows of A, or NR columns of B, of a block's depth
 *   block         the packed part of a side that a thread works on: up to NC columns of B (or MC rows of A) of at most
 *                 KC depths, 400 KB, which fit a core's second-level cache
 *   macro-kernel  the two loops around the micro-kernel that multiply a block by the whole other side
 *   packing       copying a side into micro-panels, (depth, NR) each, in the order in which they are read
 *
 * BLIS packs both sides. This file packs less:
 *
 *   B                A thread packs its block, and multiplies it by all rows of A. If B is stored by rows, the first
 *                    micro-kernel that reads a micro-panel packs it as it computes (if the depth is whole units).
 *   A by rows        is not packed: the hardware prefetches its MR streams, which are read once a block.
 *   A transposed     (dW = dy^T x) has MR numbers of one p side by side, but those of the next p a row away. Then all
 *                    threads pack the smaller of A and B whole into `work`, and the other side is packed in blocks.
 *   Prefetch         A micro-kernel computes and leaves the memory idle, so it prefetches a little at a time: the next
 *                    micro-panel of A, its own micro-tile of C, and the next memory that the thread packs. So a thread
 *                    takes its next task before the present one ends.
 *
 * In bf16 two neighbors in depth are a unit, and one multiply-add takes both. Micro-panels then consist of units,
 * (depth / 2, NR, 2), and a zero fills the last unit of an odd depth. Sizes below count numbers: a micro-panel of NR
 * columns and k depths has NR * padded(k) numbers, for every unit. AMX takes KR = 32 depths at once, also filled up
 * with zeros, and reads A by rows: if A is stored transposed, packing makes rows of it.
 *
 * The depth is cut in equal passes of at most KC. If C is fp32, a pass adds to the sums of the previous pass in C. In
 * bf16 C would be rounded after each pass, so the whole depth is one pass. If this pass is deeper than KC, a thread
 * packs one micro-panel of B at a time; if it is deeper than 2 KC, the micro-panel is in `work` and not on the stack.
 * So k and C's type alone determine the order of the sum
 *
 *   c[i,j] = beta c[i,j] + bias[j] + alpha sum_p a[i,p] b[p,j]
 *
 * The number of threads, m, n, and the place of these rows and columns in a larger matrix do not change its bits.
 *
 * Include this once for each kind of product, after the definitions that gemm_micro_kernel.h lists.
 *
 * Sources: Goto and van de Geijn 2008, "Anatomy of High-Performance Matrix Multiplication", sections 4 and 6; Van Zee
 * and van de Geijn 2015, "BLIS: A Framework for Rapidly Instantiating BLAS Functionality", section 4. Which side is
 * packed, when, and by which thread is our own choice. */
#pragma once

#include "lib/base/integer.h"
#include "lib/ops/gemm/gemm.h"
#include "lib/ops/gemm/gemm_micro_kernel.h"
#include <omp.h>

enum {
    KC = 1024 * PER_UNIT,       /* the most depths in a pass, unless C is bf16 */
    MC = (int)MR > 8 ? 64 : 48, /* rows of A in a block, where threads divide the rows */
    NC = 2 * MC,                /* the most columns of B in a block: NC * KC are 393 KB (AMX: 524) */
    TASKS = 4,                  /* tasks per thread, if rows suffice, so that no thread waits long at the end */
    ALONE = 32 << 10,           /* so few multiply-adds are not worth a second thread */
};
/* A thread's stack holds NC * KC numbers: a block of columns, one of rows, or one micro-panel twice as deep. */
_Static_assert(NC % (int)NR == 0 && MC % (int)MR == 0 && MC >= (int)NR && NC >= 2 * MC && KC % (int)LINE == 0,
               "blocks fit their places");

static int64_t padded(int64_t k) { return round_up(k, KR); }

/* One side of a product: the number of its row or column i at depth p is at[i stride + p step]. Either stride or step
 * is 1. */
struct side { const number *at; int64_t n, stride, step; };

struct product {
    struct side a, b;
    int64_t k, kc;          /* the whole depth; the depth of a pass (the last may be shorter) */
    char *c;
    int64_t ldc, nc;        /* columns of a block */
    struct epilogue end;
    number *packed;         /* the side that is packed whole; NULL: none */
    number *deep;           /* each thread's block, where its stack is too small */
    int64_t *taken;         /* tasks that threads have taken */
};

/* ---- a micro-tile of C ---- */

/* A micro-tile that extends beyond the matrix is computed in a separate buffer, so that every number is summed the same
 * way. */
static void micro_tile_at_edge(micro_kernel *whole, int64_t k, const struct operands *operands, char *c, int64_t ldc,
                               struct epilogue end, const struct prefetch *prefetch, int64_t rows, int64_t columns) {
    _Alignas(64) char x[MR * NR * sizeof(float)] = {0};
    number bias[NR] = {0};
    int64_t size = c_size(&end), row = NR * size;
    size_t bytes = (size_t)(columns * size);
    if (end.beta != 0)
        for (int64_t i = 0; i < rows; i++) memcpy(x + i * row, c + i * ldc * size, bytes);
    if (end.bias) end.bias = memcpy(bias, end.bias, sizeof(number) * (size_t)columns);
    whole(rows, k, operands, x, NR, &end, prefetch);
    for (int64_t i = 0; i < rows; i++) memcpy(c + i * ldc * size, x + i * row, bytes);
}

/* Multiply a micro-panel of A by one of B, to C from row i, column j on, in the pass that begins at depth p. */
INLINE void micro_tile(const struct product *g, int64_t i, int64_t j, int64_t p, const struct operands *x,
                       const struct prefetch *prefetch) {
    int64_t rows = min64(MR, g->a.n - i), columns = min64(NR, g->b.n - j), k = min64(g->kc, g->k - p);
    micro_kernel *function = micro_kernel_for(x, rows);
    struct epilogue end = g->end;
    if (p > 0) end.beta = 1, end.bias = NULL;
    if (end.bias) end.bias += j;
    char *c = g->c + (i * g->ldc + j) * c_size(&end);
    if (columns == NR && (rows == MR || x->a_step == PER_UNIT))
        function(rows, k, x, c, g->ldc, &end, prefetch);
    else
        micro_tile_at_edge(function, k, x, c, g->ldc, end, prefetch, rows, columns);
}

/* ---- packing: micro-panels (depth, width) of rows of A or columns of B, zeros where the side ends ---- */

DEFINE_TRANSPOSE(transpose, vec, lanes, LANES)

/* Clear the last KR depths of a micro-panel, from depth k on. */
static void zero_fill(number *panel, int width, int64_t k) {
    int64_t from = round_up(k, PER_UNIT) * width;
    memset(panel + from, 0, sizeof(number) * (size_t)(padded(k) * width - from));
}

/* Pack NR rows of k numbers each, `stride` apart, to (k, NR). It reads LANES rows at a time, as many streams as the
 * hardware prefetches. */
static void pack_across(number *restrict out, const number *restrict x, int64_t stride, int64_t k) {
    zero_fill(out, NR, k);
    for (int v = 0; v < VECTORS; v++, x += LANES * stride, out += LANES * PER_UNIT) {
        int64_t p = 0;
        for (; p + LANES * PER_UNIT <= k; p += LANES * PER_UNIT) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = load(x + l * stride + p);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) store(out + (p + l * PER_UNIT) * NR, square[l]);
        }
        for (; p < k; p += PER_UNIT)
            for (int l = 0; l < LANES; l++) {
                unit u = unit_at(x + l * stride + p, (int)min64(PER_UNIT, k - p));
                memcpy(out + p * NR + l * PER_UNIT, &u, sizeof u);
            }
    }
}

/* The same at the edge, where there are fewer rows than `width`. Simple, not fast. */
static void pack_edge(number *out, int width, const number *x, const struct side *s, int64_t n, int64_t k) {
    for (int64_t p = 0; p < padded(k); p += PER_UNIT)
        for (int64_t j = 0; j < width; j++)
            for (int64_t t = 0; t < PER_UNIT; t++)
                out[p * width + j * PER_UNIT + t] = j < n && p + t < k ? x[j * s->stride + (p + t) * s->step] : 0;
}

/* Pack a unit's rows of `width` numbers. The first `there` rows exist; zeros fill the others. */
INLINE void pack_rows(number *restrict out, int width, const number *restrict x, int64_t stride, int there) {
    for (int64_t j = 0; j < width; j++)
#pragma GCC unroll 2
        for (int t = 0; t < PER_UNIT; t++) out[j * PER_UNIT + t] = t < there ? x[t * stride + j] : 0;
}

/* Pack rows that lie `stride` apart to micro-panels with `width` numbers of each row. */
INLINE void pack_along(number *restrict out, int width, int64_t panels, const number *restrict x, int64_t stride,
                       int64_t k) {
    int64_t p = 0, panel = padded(k) * width;
    for (int64_t q = 0; q < panels; q++) zero_fill(out + q * panel, width, k);
    for (; p + PER_UNIT <= k; p += PER_UNIT)
#pragma GCC unroll 8
        for (int64_t q = 0; q < panels; q++)
            pack_rows(out + q * panel + p * width, width, x + p * stride + q * width, stride, PER_UNIT);
    for (int64_t q = 0; q < panels && p < k; q++)
        pack_rows(out + q * panel + p * width, width, x + p * stride + q * width, stride, (int)(k - p));
}

/* Pack columns [first, first + n) of B at depths [p, p + k). `rest`: pack only the last, partial micro-panel,
 * because micro-kernels pack the full ones as they compute. */
static void pack_b(number *out, const struct side *b, int64_t first, int64_t n, int64_t p, int64_t k, bool rest) {
    const number *x = b->at + first * b->stride + p * b->step;
    int64_t full = n / NR, left = n % NR, panel = NR * padded(k);
    for (int64_t q = 0; q < full && !rest; q++) {
        if (b->step == 1)
            pack_across(out + q * panel, x + q * NR * b->stride, b->stride, k);
        else
            pack_along(out + q * panel, NR, 1, x + q * NR, b->step, k);
    }
    if (left) pack_edge(out + full * panel, NR, x + full * NR * b->stride, b, left, k);
}

/* Pack n columns of numbers to rows of padded(k), LANES x LANES units at a time. */
static void pack_to_rows(number *restrict out, const number *restrict x, int64_t step, int64_t n, int64_t k) {
    int64_t rows = n / LANES * LANES, depths = k / (LANES * PER_UNIT) * (LANES * PER_UNIT), length = padded(k);
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t p = 0; p < depths; p += LANES * PER_UNIT) {
            vec square[LANES];
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) square[l] = unit_rows(x + i + (p + l * PER_UNIT) * step, step);
            transpose(square);
#pragma GCC unroll 16
            for (int l = 0; l < LANES; l++) store(out + (i + l) * length + p, square[l]);
        }
    for (int64_t i = 0; i < n; i++)
        for (int64_t p = i < rows ? depths : 0; p < length; p++) out[i * length + p] = p < k ? x[i + p * step] : 0;
}

/* Pack A's rows likewise, where A is stored transposed. */
static void pack_a(number *out, const struct side *a, int64_t first, int64_t n, int64_t p, int64_t k) {
    const number *x = a->at + first + p * a->step;
    if (A_BY_ROWS) {
        pack_to_rows(out, x, a->step, n, k);
        return;
    }
    int64_t full = n / MR, left = n % MR;
    if (n == MC)
        pack_along(out, MR, MC / MR, x, a->step, k);
    else
        pack_along(out, MR, full, x, a->step, k);
    if (left) pack_edge(out + full * MR * padded(k), MR, x + full * MR, a, left, k);
}

/* ---- a block: n columns of B, or rows of A, from `first` on, at depths p .. p + k-1 ---- */

struct block { int64_t first, n, p, k; };

static struct block block_of(const struct product *g, const struct side *s, int64_t first, int64_t n, int64_t p) {
    return (struct block){first, min64(n, s->n - first), p, min64(g->kc, g->k - p)};
}

/* The line that a micro-kernel prefetches when `left` more micro-kernels run before this block is packed. Each
 * prefetches one cache line every LINE depths. The last n of them, if as deep as the block, prefetch all of it; if its
 * rows are not whole lines, a few more do. */
INLINE struct prefetch prefetch_of(const struct side *s, const struct block *x, int64_t left) {
    int64_t lines = ceil_div(x->n, LINE), step = x->k / LINE;
    const number *at = s->at + x->first * s->stride + x->p * s->step;
    if (left >= (s->step == 1 ? x->n : lines * LINE)) return (struct prefetch){0};
    if (s->step == 1) return (struct prefetch){.line = at + left * s->stride, .step = LINE};
    return (struct prefetch){.line = at + left % lines * LINE + left / lines * step * s->step, .step = s->step};
}

/* Take the next task: early enough to prefetch its memory, but no earlier, or another thread would wait at the end. */
static int64_t take(const struct product *g) {
    int64_t task;
#pragma omp atomic capture
    task = (*g->taken)++;
    return task;
}

/* ---- threads divide the columns of C: each block of B is multiplied by all rows of A ---- */

/* Tasks: `wide` blocks of nc columns, `narrow` blocks of one micro-panel, then micro-panels whose rows are cut. The
 * last micro-panels are cut so that threads end together; if there are too few for the threads, all are cut. */
struct tasks { int64_t n, wide, narrow, cuts, rows; };
static struct tasks tasks_of(const struct product *g) {
    const int64_t in_group = g->nc / NR, least_rows = 8 * MR;
    int64_t wanted = TASKS * omp_get_num_threads(), panels = ceil_div(g->b.n, NR),
            wide = g->b.n / g->nc - omp_get_num_threads();
    if (wide < 0) wide = 0;
    if (panels - wide * (in_group - 1) < wanted) wide = 0;
    bool few = panels < wanted;
    int64_t cut = few ? panels : omp_get_num_threads(), narrow = panels - wide * in_group - cut;
    int64_t cuts = min64(few ? ceil_div(wanted, panels) : TASKS, ceil_div(g->a.n, least_rows)),
            rows = round_up(ceil_div(g->a.n, cuts), MR);
    cuts = ceil_div(g->a.n, rows); /* rows is rounded up, so fewer cuts may do: no task is empty */
    return (struct tasks){wide + narrow + cut * cuts, wide, narrow, cuts, rows};
}

static struct block block_of_columns(const struct product *g, const struct tasks *t, int64_t task, int64_t p) {
    int64_t panel = task - t->wide;
    if (panel < 0) return block_of(g, &g->b, task * g->nc, g->nc, p);
    if (panel > t->narrow) panel = t->narrow + (panel - t->narrow) / t->cuts;
    return block_of(g, &g->b, t->wide * g->nc + panel * NR, NR, p);
}

/* from .. to-1 */
struct rows { int64_t from, to; };
static struct rows rows_of(const struct product *g, const struct tasks *t, int64_t task) {
    int64_t cut = task - t->wide - t->narrow, from = cut % t->cuts * t->rows;
    return cut < 0 ? (struct rows){0, g->a.n} : (struct rows){from, min64(from + t->rows, g->a.n)};
}

/* Do micro-kernels pack B? The first that reads a micro-panel packs it, if B lies by rows, the micro-kernels have all
 * MR rows, and the depth is a multiple of KR. */
static bool micro_kernels_pack(const struct product *g, struct rows rows) {
    return g->b.step != 1 && rows.to - rows.from >= MR && g->k % KR == 0;
}

/* A as it is stored, from row i and depth p on; or the packed micro-panel of k depths. */
static struct operands of_a(const struct product *g, int64_t i, int64_t p) {
    return (struct operands){.a = g->a.at + i * g->a.stride + p, .a_stride = g->a.stride, .a_step = PER_UNIT};
}
static struct operands of_packed_a(const number *packed, int64_t k) {
    return (struct operands){.a = packed, .a_stride = A_BY_ROWS ? padded(k) : PER_UNIT,
                             .a_step = A_BY_ROWS ? PER_UNIT : MR * PER_UNIT};
}

static struct operands operands_at(const struct product *g, int64_t i, int64_t j, const struct block *now,
                                   number *packed, bool packs) {
    int64_t k = padded(now->k);
    number *panel = packed + j * k;
    struct operands x =
        g->packed ? of_packed_a(g->packed + now->p * round_up(g->a.n, MR) + i * k, k) : of_a(g, i, now->p);
    x.b = panel, x.b_step = NR * PER_UNIT;
    if (!packs || j + NR > now->n) return x;
    x.pack = panel;
    x.b = g->b.at + now->first + j + now->p * g->b.step, x.b_step = g->b.step * PER_UNIT;
    return x;
}

/* One pass of a task. `next` is the block that is packed after this pass. In the last pass `next` is NULL, because the
 * block is not known yet, and *task becomes the next task. */
static void macro_kernel_columns(const struct product *g, const struct tasks *t, int64_t *task, struct block now,
                                 const struct block *next, number *packed) {
    struct rows rows = rows_of(g, t, *task);
    int64_t left = ceil_div(rows.to - rows.from, MR) * ceil_div(now.n, NR);
    int64_t a_row = g->packed ? padded(now.k) : g->a.stride; /* a packed micro-panel has MR rows of this length */
    struct block after;
    for (int64_t i = rows.from; i < rows.to; i += MR)
        for (int64_t j = 0; j < now.n; j += NR) {
            struct operands x = operands_at(g, i, j, &now, packed, i == rows.from && micro_kernels_pack(g, rows));
            struct prefetch prefetch = {0};
            if (--left < NC && !next) {
                *task = take(g);
                after = block_of_columns(g, t, *task, 0);
                next = &after;
            }
            if (next) prefetch = prefetch_of(&g->b, next, left);
            if (j + NR >= now.n && i + 2 * MR <= rows.to) prefetch.rows = x.a + MR * a_row, prefetch.stride = a_row;
            micro_tile(g, i, now.first + j, now.p, &x, &prefetch);
        }
}

static void over_columns(const struct product *g, number *mine) {
    struct tasks t = tasks_of(g);
    for (int64_t task = take(g); task < t.n;) /* the last pass of a task takes the next task */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->kc) {
            struct block now = block_of_columns(g, &t, task, p), next = block_of_columns(g, &t, task, p + g->kc);
            pack_b(mine, &g->b, now.first, now.n, p, now.k, micro_kernels_pack(g, rows_of(g, &t, task)));
            macro_kernel_columns(g, &t, &task, now, p + g->kc < end ? &next : NULL, mine);
        }
}

/* ---- threads divide the rows of C: A is stored transposed, B is packed whole and multiplied by each block of A
 * ---- */

/* Tasks: `whole` blocks of MC rows, then blocks of `size` rows, so that threads end together. */
struct row_tasks { int64_t whole, size; };
static struct row_tasks row_tasks_of(const struct product *g) {
    int64_t threads = omp_get_num_threads(), whole = g->a.n / MC - threads;
    return (struct row_tasks){whole > 0 ? whole : 0, min64(MC / 2, round_up(ceil_div(g->a.n, threads), MR))};
}

/* The block of a task. After the last task it has no rows, or a negative number. */
static struct block block_of_rows(const struct product *g, const struct row_tasks *t, int64_t task, int64_t p) {
    if (task < t->whole) return block_of(g, &g->a, task * MC, MC, p);
    return block_of(g, &g->a, t->whole * MC + (task - t->whole) * t->size, t->size, p);
}

/* As macro_kernel_columns. */
static void macro_kernel_rows(const struct product *g, const struct row_tasks *t, int64_t *task, struct block now,
                              const struct block *next, number *packed) {
    int64_t columns = round_up(g->b.n, NR), left = ceil_div(now.n, MR) * (columns / NR), k = padded(now.k);
    struct block after;
    for (int64_t j = 0; j < g->b.n; j += NR)
        for (int64_t i = 0; i < now.n; i += MR) {
            struct operands x = of_packed_a(packed + i * k, k);
            x.b = g->packed + now.p * columns + j * k, x.b_step = NR * PER_UNIT;
            struct prefetch prefetch = {0};
            if (--left < MC * PER_UNIT && !next) {
                *task = take(g);
                after = block_of_rows(g, t, *task, 0);
                next = &after;
            }
            if (next) prefetch = prefetch_of(&g->a, next, left);
            /* of B's next micro-panel, as long as NR rows of its depth, MR of them */
            if (j + NR < g->b.n) prefetch.rows = x.b + (NR + i) * k, prefetch.stride = k;
            micro_tile(g, now.first + i, j, now.p, &x, &prefetch);
        }
}

static void over_rows(const struct product *g, number *mine) {
    struct row_tasks t = row_tasks_of(g);
    for (int64_t task = take(g); block_of_rows(g, &t, task, 0).n > 0;) /* as above */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->kc) {
            struct block now = block_of_rows(g, &t, task, p), next = block_of_rows(g, &t, task, p + g->kc);
            pack_a(mine, &g->a, now.first, now.n, p, now.k);
            macro_kernel_rows(g, &t, &task, now, p + g->kc < end ? &next : NULL, mine);
        }
}

/* Pack the smaller side by all threads, pass after pass. */
static void pack_whole(const struct product *g, bool is_a) {
    const struct side *s = is_a ? &g->a : &g->b;
    int64_t some = is_a ? MC : NR, all = round_up(s->n, is_a ? MR : NR);
#pragma omp for collapse(2)
    for (int64_t p = 0; p < g->k; p += g->kc)
        for (int64_t first = 0; first < s->n; first += some) {
            int64_t k = min64(g->kc, g->k - p);
            number *to = g->packed + p * all + first * padded(k);
            if (is_a)
                pack_a(to, s, first, min64(some, s->n - first), p, k);
            else
                pack_b(to, s, first, min64(some, s->n - first), p, k, false);
        }
}

/* ---- the product ---- */

/* Numbers in `work`: the side that is packed whole, then the threads' blocks that do not fit their stacks. */
static int64_t packed_numbers(const struct gemm *g) {
    const int64_t padding = MC; /* at least any machine's MR and NR, less one */
    return g->transpose_a ? round_up(padded(g->k) * (min64(g->m, g->n) + padding), LINE) : 0;
}
static int64_t work_numbers(const struct gemm *g, int n_threads) {
    bool deep = PER_UNIT > 1 && g->k > 2 * KC;
    return packed_numbers(g) + (deep ? n_threads * MC * padded(g->k) : 0);
}

static void product(const struct gemm *g, const number *a, int64_t lda, const number *b, int64_t ldb,
                    const number *bias, void *c, int64_t ldc, number *work) {
    bool wide = g->c_dtype == FP32;
    int64_t taken = 0, passes = wide && g->k > KC ? ceil_div(g->k, KC) : 1;
    struct product x = {.a = {a, g->m, g->transpose_a ? 1 : lda, g->transpose_a ? lda : 1},
                        .b = {b, g->n, g->transpose_b ? ldb : 1, g->transpose_b ? 1 : ldb},
                        .k = g->k,
                        .kc = g->k > 0 ? round_up(ceil_div(g->k, passes), LINE) : 1,
                        .c = c,
                        .ldc = ldc,
                        .end = {(float)g->alpha, (float)g->beta, bias, wide},
                        .taken = &taken};
    bool rows = g->transpose_a && g->m >= g->n;
    x.nc = x.kc > KC ? NR : NC;
    if (g->transpose_a) x.packed = work;
    if (x.kc > 2 * KC) x.deep = work + packed_numbers(g);
#pragma omp parallel if (g->m * g->n * g->k > ALONE)
    {
        _Alignas(64) number near[NC * KC];
        number *mine = x.deep ? x.deep + omp_get_thread_num() * MC * padded(g->k) : near;
        if (x.packed) pack_whole(&x, !rows);
        before_micro_kernels();
        if (rows)
            over_rows(&x, mine);
        else
            over_columns(&x, mine);
        after_micro_kernels();
    }
}
