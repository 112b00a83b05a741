/* The micro-kernel of gemm_packed.h: a micro-tile of C, MR x NR, in vector registers. (Or, where the file that includes
 * this defines GEMM_AMX, in AMX's registers: gemm_micro_kernel_amx.h.)
 *
 * The file that includes this first defines the types of the product, includes gemm_vector.h, and defines how to
 * compute with them:
 *
 *   stored        a number of A, B and bias in memory
 *   number        a number of packed panels: the same type, or with WIDENS 1 fp32
 *   PER_UNIT      of them, neighbors in depth, are a unit of 32 bits: an fp32 number, or two of bf16
 *   unit          32 bits
 *
 *   number_of     the packed form of a stored number
 *   multiply_add  sum + a b, in fp32: a unit in each lane of b
 *   units         a vector of units from stored numbers in a row
 *   unit_rows     a vector of units from PER_UNIT rows of stored numbers, `stride` apart
 *   widen, narrow a vector's lanes from and to stored numbers, as fp32 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* MR and NR fit the number of registers: accumulators, a row of B, and one number of A. KR: depths that one
 * instruction multiplies; packed data is padded to a multiple of KR. A_BY_ROWS: packed micro-panels of A are rows,
 * not (depth, MR). */
#if defined GEMM_AMX
enum { MR = 32, VECTORS = 2, KR = 32, A_BY_ROWS = 1 };
#elif VECTOR_REGISTERS == 32
enum { MR = 8, VECTORS = 3 }; /* 24 + 3 + 1 registers */
#else
enum { MR = 4, VECTORS = 3 }; /* 12 + 3 + 1: of the micro-tiles that fit, the one with the fewest loads */
#endif
#if !defined GEMM_AMX
enum { KR = PER_UNIT, A_BY_ROWS = 0 };
#endif
enum {
    NR = LANES * VECTORS,
    LINE = 64 / sizeof(number), /* packed numbers in a cache line */
    STORED_LINE = 64 / sizeof(stored),
    C_LEAD = 16,                /* C's micro-tile is prefetched this many lines of depth before its use */
};

/* A micro-kernel's operands: unit p of row i of A is at a[i a_stride + p a_step], row p of B's units, which are packed,
 * at b + p NR PER_UNIT. If A is in rows, a_step is PER_UNIT, and there may be fewer than MR rows; if A is packed,
 * a_step is larger. If `pack` is not NULL, the micro-panel of B is not packed yet: the micro-kernel reads rows of units
 * from `from`, from_step apart, and writes their packed form to `pack`. This costs only stores (and the making of
 * units), for which the arithmetic leaves room. */
struct operands {
    const number *a;
    int64_t a_stride, a_step;
    const number *b;
    number *pack;
    const stored *from;
    int64_t from_step;
};

/* The epilogue: c = alpha sum + bias + beta c. wide: C is fp32; else it is made of numbers. */
struct epilogue { float alpha, beta; const stored *bias; bool wide; };

/* The addresses that a micro-kernel prefetches as it computes. Every LINE depths it fetches a cache line of each of
 * MR rows of A (the next micro-panel; rows are `stride` bytes apart, and LINE depths take `depths` bytes), and one line
 * of the next block to pack. NULL: nothing. It fetches a few lines at a time, because a burst would delay B. */
struct prefetch { const char *rows; int64_t stride, depths; const stored *line; int64_t step; };

INLINE void prefetch_next(const struct prefetch *x, int64_t lines) {
    if (x->rows)
#pragma GCC unroll 8
        for (int i = 0; i < MR; i++) __builtin_prefetch(x->rows + i * x->stride + lines * x->depths);
    if (x->line) __builtin_prefetch(x->line + lines * x->step);
}

/* A unit of A, of which only `there` numbers exist; its other numbers are zero. */
INLINE unit unit_at(const number *x, int there) {
    unit u = 0;
    memcpy(&u, x, (size_t)there * sizeof(number));
    return u;
}

/* LANES elements of C from the i-th on */
INLINE vec c_at(const void *c, int64_t i, bool wide) {
    return wide ? load((const float *)c + i) : widen((const stored *)c + i);
}
INLINE void c_set(void *c, int64_t i, bool wide, vec x) {
    if (wide)
        store((float *)c + i, x);
    else
        narrow((stored *)c + i, x);
}
INLINE int64_t c_size(const struct epilogue *end) {
    return end->wide ? (int64_t)sizeof(float) : (int64_t)sizeof(stored);
}

/* Prefetch row `i` of the micro-tile of C. */
INLINE void prefetch_c(const void *c, int64_t i, int64_t ldc, const struct epilogue *end) {
#pragma GCC unroll 3
    for (int64_t j = 0; j < NR * c_size(end); j += 64)
        __builtin_prefetch((const char *)c + i * ldc * c_size(end) + j, 1);
}

/* From sums to C. */
INLINE void apply_epilogue(int rows, vec sum[MR][VECTORS], void *restrict c, int64_t ldc, const struct epilogue *end) {
    if (end->alpha != 1) /* a separate loop, or a compiler might contract it with the next in some micro-kernels only */
#pragma GCC unroll 8
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
            for (int v = 0; v < VECTORS; v++) sum[i][v] *= end->alpha;
    float beta = end->beta;
    const stored *bias = end->bias;
    bool wide = end->wide;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) {
            vec y = sum[i][v];
            if (bias) y += widen(bias + v * LANES);
            if (beta != 0) y += beta * c_at(c, i * ldc + v * LANES, wide);
            c_set(c, i * ldc + v * LANES, wide, y);
        }
}

/* Computes `rows` rows, or all MR where A is packed in units. A thread calls before_micro_kernels before its first
 * micro-kernel, and after_micro_kernels after its last. */
typedef void micro_kernel(int64_t rows, int64_t k, const struct operands *, void *c, int64_t ldc,
                          const struct epilogue *, const struct prefetch *);

#if defined GEMM_AMX
#include "lib/ops/gemm/gemm_micro_kernel_amx.h"
#else

/* One unit of depth: a row of B times MR units of A. Rows of A from MR / 2 on have a base address of their own, because
 * one address register does not reach eight rows. */
INLINE void rank_1_update(vec sum[MR][VECTORS], int rows, bool packing, int there, const number *lower,
                          const struct operands *x) {
    vec row[VECTORS];
#pragma GCC unroll 3
    for (int v = 0; v < VECTORS; v++)
        row[v] =
            packing ? unit_rows(x->from + v * LANES, x->from_step / PER_UNIT) : load(x->b + v * LANES * PER_UNIT);
    if (packing)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) store(x->pack + v * LANES * PER_UNIT, row[v]);
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++) {
        unit a = unit_at(i < MR / 2 ? x->a + i * x->a_stride : lower + (i - MR / 2) * x->a_stride, there);
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] = multiply_add(sum[i][v], a, row[v]);
    }
}

/* To the next depth. */
INLINE void step(struct operands *x, bool packing, const number **lower) {
    x->a += x->a_step, *lower += x->a_step;
    if (packing)
        x->from += x->from_step, x->pack += NR * PER_UNIT;
    else
        x->b += NR * PER_UNIT;
}

/* rows x NR of C. Called with constant rows, so that the sums are registers. */
INLINE void micro_kernel_body(int rows, bool packing, int64_t k, struct operands x, void *restrict c,
                              int64_t ldc, const struct epilogue *end, const struct prefetch *prefetch) {
    vec sum[MR][VECTORS];
    const number *lower = x.a + MR / 2 * x.a_stride;
    int64_t lines = k / LINE, first = lines > rows + C_LEAD ? lines - rows - C_LEAD : 0, p = lines * LINE;
#pragma GCC unroll 8
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 3
        for (int v = 0; v < VECTORS; v++) sum[i][v] = (vec){0};
    for (int64_t l = 0; l < lines; l++) {
        prefetch_next(prefetch, l);
        if (l >= first && l < first + rows) prefetch_c(c, l - first, ldc, end);
#pragma GCC unroll 4
        for (int q = 0; q < LINE / PER_UNIT; q++, step(&x, packing, &lower))
            rank_1_update(sum, rows, packing, PER_UNIT, lower, &x);
    }
    for (; p + PER_UNIT <= k; p += PER_UNIT, step(&x, packing, &lower))
        rank_1_update(sum, rows, packing, PER_UNIT, lower, &x);
    if (p < k) rank_1_update(sum, rows, packing, (int)(k - p), lower, &x);
    apply_epilogue(rows, sum, c, ldc, end);
}

static inline void before_micro_kernels(void) {}
static inline void after_micro_kernels(void) {}

/* The micro-kernels. Constants are written out in each, so that the compiler can use them. */
#define MICRO_KERNEL(name, rows, packing, stride, step) \
    static void name(int64_t n, int64_t k, const struct operands *x, void *c, int64_t ldc, const struct epilogue *end, \
                     const struct prefetch *prefetch) { \
        (void)n; \
        micro_kernel_body(rows, packing, k, \
                          (struct operands){x->a, stride, step, x->b, x->pack, x->from, x->from_step}, c, ldc, \
                          end, prefetch); \
    }
/* A by rows, of which there are 1, 2, ... */
#define MICRO_KERNEL_OF(rows) MICRO_KERNEL(micro_kernel_##rows, rows, false, x->a_stride, PER_UNIT)
/* up to four */
MICRO_KERNEL_OF(1) MICRO_KERNEL_OF(2) MICRO_KERNEL_OF(3) MICRO_KERNEL_OF(4)
#if VECTOR_REGISTERS == 32
/* up to eight */
MICRO_KERNEL_OF(5) MICRO_KERNEL_OF(6) MICRO_KERNEL_OF(7) MICRO_KERNEL_OF(8)
static micro_kernel *const micro_kernel_by_rows[MR + 1] = {
    NULL,           micro_kernel_1, micro_kernel_2, micro_kernel_3, micro_kernel_4,
    micro_kernel_5, micro_kernel_6, micro_kernel_7, micro_kernel_8};
#else
static micro_kernel *const micro_kernel_by_rows[MR + 1] = {NULL, micro_kernel_1, micro_kernel_2, micro_kernel_3,
                                                           micro_kernel_4};
#endif
/* All MR rows: A packed, B packed on the way, or both. */
MICRO_KERNEL(micro_kernel_packed_a, MR, false, PER_UNIT, MR * PER_UNIT)
MICRO_KERNEL(micro_kernel_packs_b, MR, true, x->a_stride, PER_UNIT)
MICRO_KERNEL(micro_kernel_packed_a_packs_b, MR, true, PER_UNIT, MR * PER_UNIT)

/* The micro-kernel for `rows` rows. Fewer than MR are possible only if A is stored by rows and nothing is packed. */
static inline micro_kernel *micro_kernel_for(const struct operands *x, int64_t rows) {
    bool packed = x->a_step != PER_UNIT;
    if (x->pack) return packed ? micro_kernel_packed_a_packs_b : micro_kernel_packs_b;
    return packed ? micro_kernel_packed_a : micro_kernel_by_rows[rows];
}

#endif
