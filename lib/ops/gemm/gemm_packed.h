/* A fast matrix product for CPUs: fp32, and numbers of 16 bits, in pairs where the processor multiplies those, or
 * widened to fp32. It computes the same product as the loops of gemm_plain_cpu.c (`--gemm plain`), so you need not read
 * it to use Trivium.
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
 * In pairs of bf16 two neighbors in depth are a unit, and one multiply-add takes both. Micro-panels then consist of
 * units, (depth / 2, NR, 2), and a zero fills the last unit of an odd depth. Sizes below count numbers: a micro-panel
 * of NR columns and k depths has NR * padded(k) numbers, for every unit. AMX takes KR = 32 depths at once, also filled
 * up with zeros, and reads A by rows: if A is stored transposed, packing makes rows of it.
 *
 * Where the processor has no such multiply-add (or a slow one), packing widens (WIDENS): packed panels are fp32, and so
 * is a micro-panel of A by rows, which a thread copies when it comes to it. No pass of its own over a side is needed.
 *
 * The depth is cut in equal passes of at most KC. If C is fp32, a pass adds to the sums of the previous pass in C. In
 * 16 bits C would be rounded after each pass, so the whole depth is one pass. If this pass is deeper than KC, a thread
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

#include "lib/ops/gemm/gemm.h"
#include "lib/ops/gemm/gemm_packing.h"
#include <omp.h>

enum {
    KC = 1024 * PER_UNIT,       /* the most depths in a pass, unless C is bf16 */
    NC = 2 * MC,                /* the most columns of B in a block: NC * KC are 393 KB (AMX: 524) */
    TASKS = 4,                  /* tasks per thread, if rows suffice, so that no thread waits long at the end */
    DEPTHS = 64,                /* that a thread packs at a time of a side that all threads pack */
    ALONE = 32 << 10,           /* so few multiply-adds are not worth a second thread */
};
/* A thread's stack holds NC * KC numbers: a block of columns, one of rows, or one micro-panel twice as deep. If packing
 * widens, it also holds a widened micro-panel of A as deep. */
_Static_assert(NC % (int)NR == 0 && MC % (int)MR == 0 && MC >= (int)NR && NC >= 2 * MC && KC % (int)LINE == 0,
               "blocks fit their places");

struct product {
    struct side a, b;
    int64_t k, kc;          /* the whole depth; the depth of a pass (the last may be shorter) */
    char *c;
    int64_t ldc, nc;        /* the most columns of a block: as many as fit NC * KC numbers */
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
    stored bias[NR] = {0};
    int64_t size = c_size(&end), row = NR * size;
    size_t bytes = (size_t)(columns * size);
    if (end.beta != 0)
        for (int64_t i = 0; i < rows; i++) memcpy(x + i * row, c + i * ldc * size, bytes);
    if (end.bias) end.bias = memcpy(bias, end.bias, sizeof(stored) * (size_t)columns);
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

/* ---- a block: n columns of B, or rows of A, from `first` on, at depths p .. p + k-1 ---- */

struct block { int64_t first, n, p, k; };

static struct block block_of(const struct product *g, const struct side *s, int64_t first, int64_t n, int64_t p) {
    return (struct block){first, min64(n, s->n - first), p, min64(g->kc, g->k - p)};
}

/* The line that a micro-kernel prefetches when `left` more micro-kernels run before this block is packed. Each
 * prefetches one cache line every LINE depths. The last n of them, if as deep as the block, prefetch all of it; if its
 * rows are not whole lines, a few more do. */
INLINE struct prefetch prefetch_of(const struct side *s, const struct block *x, int64_t left) {
    int64_t lines = ceil_div(x->n, STORED_LINE), step = x->k / LINE;
    const stored *at = s->at + x->first * s->stride + x->p * s->step;
    if (left >= (s->step == 1 ? x->n : lines * LINE)) return (struct prefetch){0};
    if (s->step == 1) return (struct prefetch){.line = at + left * s->stride, .step = LINE};
    return (struct prefetch){.line = at + left % lines * STORED_LINE + left / lines * step * s->step, .step = s->step};
}

/* Take the next task: early enough to prefetch its memory, but no earlier, or another thread would wait at the end. */
static int64_t take(const struct product *g) {
    int64_t task;
#pragma omp atomic capture
    task = (*g->taken)++;
    return task;
}

/* ---- threads divide the columns of C: each block of B is multiplied by all rows of A ---- */

/* Tasks: blocks of whole micro-panels of columns, then micro-panels whose rows are cut. A block has nc columns, or, as
 * the end comes near, half of a thread's share of what is left; the last micro-panels are cut so that threads end
 * together, also if one is slow. If there are too few micro-panels for the threads, all are cut. Source of the halves:
 * Polychronopoulos and Kuck 1987, "Guided Self-Scheduling". */
struct tasks { int64_t n, blocks, wide, panels, cuts, rows; };

/* The micro-panels of a block when `left` are left, and the first one of a task. */
static int64_t panels_of_block(const struct product *g, int64_t left) {
    return min64(ceil_div(left, 2 * omp_get_num_threads()), g->nc / NR);
}
static int64_t first_panel(const struct product *g, const struct tasks *t, int64_t task) {
    int64_t at = min64(task, t->wide) * (g->nc / NR);
    for (int64_t q = t->wide; q < task && at < t->panels; q++) at += panels_of_block(g, t->panels - at);
    return at;
}

static struct tasks tasks_of(const struct product *g) {
    const int64_t in_group = g->nc / NR, least_rows = 8 * MR, threads = omp_get_num_threads();
    int64_t wanted = TASKS * threads, panels = ceil_div(g->b.n, NR);
    bool few = panels < wanted;
    int64_t cut = few ? panels : threads;
    int64_t cuts = min64(few ? ceil_div(wanted, panels) : TASKS, ceil_div(g->a.n, least_rows)),
            rows = round_up(ceil_div(g->a.n, cuts), MR);
    cuts = ceil_div(g->a.n, rows); /* rows is rounded up, so fewer cuts may do: no task is empty */
    struct tasks t = {.panels = panels - cut, .cuts = cuts, .rows = rows};
    int64_t more = t.panels - 2 * threads * (in_group - 1); /* blocks are of nc columns until these are taken */
    t.wide = t.blocks = more > 0 ? ceil_div(more, in_group) : 0;
    while (first_panel(g, &t, t.blocks) < t.panels) t.blocks++;
    t.n = t.blocks + cut * cuts;
    return t;
}

static struct block block_of_columns(const struct product *g, const struct tasks *t, int64_t task, int64_t p) {
    int64_t first = task < t->blocks ? first_panel(g, t, task) : t->panels + (task - t->blocks) / t->cuts;
    return block_of(g, &g->b, first * NR, task < t->blocks ? panels_of_block(g, t->panels - first) * NR : NR, p);
}

/* from .. to-1 */
struct rows { int64_t from, to; };
static struct rows rows_of(const struct product *g, const struct tasks *t, int64_t task) {
    int64_t cut = task - t->blocks, from = cut % t->cuts * t->rows;
    return cut < 0 ? (struct rows){0, g->a.n} : (struct rows){from, min64(from + t->rows, g->a.n)};
}

/* Do micro-kernels pack B? The first that reads a micro-panel packs it, if B lies by rows, the micro-kernels have all
 * MR rows, and the depth is a multiple of KR. */
static bool micro_kernels_pack(const struct product *g, struct rows rows) {
    return g->b.step != 1 && rows.to - rows.from >= MR && g->k % KR == 0;
}

/* Rows of A, as they are stored or widened; or the packed micro-panel of k depths. */
static struct operands of_a(const number *a, int64_t stride) {
    return (struct operands){.a = a, .a_stride = stride, .a_step = PER_UNIT};
}
static struct operands of_packed_a(const number *packed, int64_t k) {
    return (struct operands){.a = packed, .a_stride = A_BY_ROWS ? padded(k) : PER_UNIT,
                             .a_step = A_BY_ROWS ? PER_UNIT : MR * PER_UNIT};
}

/* A's micro-panel from row i on */
static struct operands micro_panel_of_a(const struct product *g, int64_t i, const struct block *now,
                                        const struct rows *r, number *widened) {
    int64_t k = padded(now->k);
    if (g->packed) return of_packed_a(g->packed + now->p * round_up(g->a.n, MR) + i * k, k);
#if WIDENS
    widen_rows(widened, &g->a, i, min64(MR, r->to - i), now->p, now->k);
    return of_a(widened, widened_row(now->k));
#else
    return (void)r, (void)widened, of_a(g->a.at + i * g->a.stride + now->p, g->a.stride);
#endif
}

/* B's micro-panel from column j of the block on: packed, or to be packed */
static void set_b(struct operands *x, const struct product *g, int64_t j, const struct block *now, number *packed,
                  bool packs) {
    number *panel = packed + j * padded(now->k);
    x->b = panel, x->pack = NULL;
    if (!packs || j + NR > now->n) return;
    x->pack = panel;
    x->from = g->b.at + now->first + j + now->p * g->b.step, x->from_step = g->b.step * PER_UNIT;
}

/* The next micro-panel of A: MR rows, packed or as they are stored. */
static void prefetch_a(struct prefetch *x, const struct product *g, int64_t i, const struct block *now) {
    int64_t k = padded(now->k);
    if (g->packed) {
        *x = (struct prefetch){(const char *)(g->packed + now->p * round_up(g->a.n, MR) + i * k),
                               k * (int64_t)sizeof(number), 64, x->line, x->step};
        return;
    }
    x->rows = (const char *)(g->a.at + i * g->a.stride + now->p);
    x->stride = g->a.stride * (int64_t)sizeof(stored), x->depths = LINE * (int64_t)sizeof(stored);
}

/* One pass of a task. `next` is the block that is packed after this pass. In the last pass `next` is NULL, because the
 * block is not known yet, and *task becomes the next task. */
static void macro_kernel_columns(const struct product *g, const struct tasks *t, int64_t *task, struct block now,
                                 const struct block *next, number *packed, number *widened) {
    struct rows rows = rows_of(g, t, *task);
    int64_t left = ceil_div(rows.to - rows.from, MR) * ceil_div(now.n, NR);
    struct block after;
    for (int64_t i = rows.from; i < rows.to; i += MR) {
        struct operands x = micro_panel_of_a(g, i, &now, &rows, widened);
        bool packs = i == rows.from && micro_kernels_pack(g, rows);
        for (int64_t j = 0; j < now.n; j += NR) {
            set_b(&x, g, j, &now, packed, packs);
            struct prefetch prefetch = {0};
            if (--left < NC && !next) {
                *task = take(g);
                after = block_of_columns(g, t, *task, 0);
                next = &after;
            }
            if (next) prefetch = prefetch_of(&g->b, next, left);
            if (j + NR >= now.n && i + 2 * MR <= rows.to) prefetch_a(&prefetch, g, i + MR, &now);
            micro_tile(g, i, now.first + j, now.p, &x, &prefetch);
        }
    }
}

static void over_columns(const struct product *g, number *mine, number *widened) {
    struct tasks t = tasks_of(g);
    for (int64_t task = take(g); task < t.n;) /* the last pass of a task takes the next task */
        for (int64_t p = 0, end = g->k > 0 ? g->k : 1; p < end; p += g->kc) {
            struct block now = block_of_columns(g, &t, task, p), next = block_of_columns(g, &t, task, p + g->kc);
            pack_b(mine, &g->b, now.first, now.n, p, now.k, micro_kernels_pack(g, rows_of(g, &t, task)));
            macro_kernel_columns(g, &t, &task, now, p + g->kc < end ? &next : NULL, mine, widened);
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
            x.b = g->packed + now.p * columns + j * k;
            struct prefetch prefetch = {0};
            if (--left < MC * PER_UNIT && !next) {
                *task = take(g);
                after = block_of_rows(g, t, *task, 0);
                next = &after;
            }
            if (next) prefetch = prefetch_of(&g->a, next, left);
            /* of B's next micro-panel, as long as NR rows of its depth, MR of them */
            if (j + NR < g->b.n)
                prefetch.rows = (const char *)(x.b + (NR + i) * k), prefetch.stride = k * (int64_t)sizeof(number),
                prefetch.depths = 64;
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

/* Pack depths p .. p + k-1 of all of a side that is stored by rows: row after row, as they lie in memory. `panel`:
 * numbers in a micro-panel. */
INLINE void pack_depths(number *out, int width, int64_t panel, const struct side *s, int64_t p, int64_t k) {
    const stored *x = s->at + p * s->step;
    int64_t full = s->n / width, left = s->n % width;
    pack_along(out, width, full, panel, x, s->step, k);
    if (left) pack_edge(out + full * panel, width, x + full * width, s, left, k);
}

/* Pack one pass of the smaller side by all threads: a side by rows in pieces of its depth, another in pieces of its
 * rows or columns. */
static void pack_pass(const struct product *g, bool is_a, int64_t p) {
    const struct side *s = is_a ? &g->a : &g->b;
    int64_t k = min64(g->kc, g->k - p), some = is_a ? MC : NR;
    number *out = g->packed + p * round_up(s->n, is_a ? MR : NR);
    if (s->step != 1 && !(is_a && A_BY_ROWS)) {
#pragma omp for schedule(dynamic)
        for (int64_t d = 0; d < k; d += DEPTHS)
            if (is_a)
                pack_depths(out + d * MR, MR, MR * padded(k), s, p + d, min64(DEPTHS, k - d));
            else
                pack_depths(out + d * NR, NR, NR * padded(k), s, p + d, min64(DEPTHS, k - d));
        return;
    }
#pragma omp for schedule(dynamic)
    for (int64_t i = 0; i < s->n; i += some)
        if (is_a)
            pack_a(out + i * padded(k), s, i, min64(some, s->n - i), p, k);
        else
            pack_b(out + i * padded(k), s, i, min64(some, s->n - i), p, k, false);
}

/* ---- the product ---- */

/* Numbers in `work`: the side that is packed whole, then the threads' blocks that do not fit their stacks. */
static int64_t packed_numbers(const struct gemm *g) {
    const int64_t padding = MC; /* at least any machine's MR and NR, less one */
    return g->transpose_a ? round_up(padded(g->k) * (min64(g->m, g->n) + padding), LINE) : 0;
}
static int64_t deep_numbers(int64_t k) { return MC * padded(k) + (WIDENS ? MR * widened_row(k) : 0); }
static int64_t work_numbers(const struct gemm *g, int n_threads) {
    bool deep = sizeof(stored) < sizeof(float) && g->k > 2 * KC;
    return packed_numbers(g) + (deep ? n_threads * deep_numbers(g->k) : 0);
}

static void product(const struct gemm *g, const stored *a, int64_t lda, const stored *b, int64_t ldb,
                    const stored *bias, void *c, int64_t ldc, number *work) {
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
    x.nc = x.kc > KC ? NR : min64(NC * (int64_t)KC / padded(x.kc) / NR, ceil_div(g->n, NR)) * NR;
    if (g->transpose_a) x.packed = work;
    if (x.kc > 2 * KC) x.deep = work + packed_numbers(g);
#pragma omp parallel if (g->m * g->n * g->k > ALONE)
    {
        _Alignas(64) number near[NC * KC + (WIDENS ? MR * (2 * KC + LINE) : 0)];
        number *mine = x.deep ? x.deep + omp_get_thread_num() * deep_numbers(g->k) : near;
        for (int64_t p = 0; x.packed && p < g->k; p += x.kc) pack_pass(&x, !rows, p);
        before_micro_kernels();
        if (rows)
            over_rows(&x, mine);
        else
            over_columns(&x, mine, x.deep ? mine + MC * padded(g->k) : near + NC * KC);
        after_micro_kernels();
    }
}
