/* The micro-kernel of gemm_packed.h in AMX's registers (amx.h); gemm_micro_kernel.h includes this.
 *
 * Rows of A are read in place; if A is stored transposed, packing makes rows of it. A packed micro-panel of B, 32
 * columns of 16 pairs, has the layout of the registers. The central function is micro_kernel_body.
 *
 * Zeros fill the depths up to a multiple of KR and change no sum. For fewer rows, registers get fewer rows. */
#pragma once

#include "lib/ops/gemm/amx.h"

/* Pack KR depths of B, as they are stored, to pairs. */
INLINE void pack_kr(number *to, const stored *b, int64_t b_step) {
#pragma GCC unroll 4
    for (int q = 0; q < KR / PER_UNIT; q++)
#pragma GCC unroll 2
        for (int v = 0; v < VECTORS; v++)
            store(to + q * NR * PER_UNIT + v * LANES * PER_UNIT,
                  unit_rows(b + q * b_step + v * LANES, b_step / PER_UNIT));
}

/* Multiply KR depths. `stride` is that of A's rows; b is packed. */
INLINE void rank_k_update(bool two, const number *a, int64_t stride, const number *b) {
    const size_t a_bytes = (size_t)stride * sizeof *a, b_bytes = NR * sizeof(unit);
    __asm__ volatile("" ::: "memory");   /* gcc does not see that these loads read the packed data */
    _tile_loadd(6, b, b_bytes);
    _tile_loadd(7, b + LANES * PER_UNIT, b_bytes);
    _tile_loadd(4, a, a_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (!two) return;
    _tile_loadd(5, a + AMX_HALF * stride, a_bytes);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
}

/* Copy the last depths of A, which are fewer than KR, and fill up with zeros. */
INLINE void last_of_a(number to[MR][KR], const struct operands *x, int64_t rows, int64_t there) {
    memset(to, 0, sizeof(number) * MR * KR);
    for (int64_t i = 0; i < rows; i++) memcpy(to[i], x->a + i * x->a_stride, sizeof(number) * (size_t)there);
}

static void before_micro_kernels(void) { amx_set_up(MR, NR, KR / PER_UNIT); }
static void after_micro_kernels(void) { _tile_release(); }

/* Rows of A are not prefetched: the hardware prefetches them, and AMX leaves no time for it. */
INLINE void micro_kernel_body(int64_t rows, bool packing, int64_t k, struct operands x, void *restrict c,
                              int64_t ldc, const struct epilogue *end, const struct prefetch *prefetch) {
    _Alignas(64) vec sum[MR][VECTORS];
    int64_t updates = k / KR, left = k % KR, first = updates > rows ? updates - rows : 0;
    bool two = rows > AMX_HALF;
    if (rows < MR) amx_set_up(rows, NR, KR / PER_UNIT);
    _tile_zero(0);
    _tile_zero(1);
    if (two) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t l = 0; l < updates; l++) {
        if (prefetch->line) __builtin_prefetch(prefetch->line + l * prefetch->step);
        if (l >= first) prefetch_c(c, l - first, ldc, end);
        if (packing) pack_kr(x.pack, x.from, x.from_step);
        rank_k_update(two, x.a, x.a_stride, packing ? x.pack : x.b);
        x.a += KR;
        if (packing)
            x.from += KR / PER_UNIT * x.from_step, x.pack += KR * NR;
        else
            x.b += KR * NR;
    }
    if (left) {
        _Alignas(64) number last[MR][KR];
        last_of_a(last, &x, rows, left);
        rank_k_update(two, last[0], KR, x.b);
    }
    _tile_stored(0, sum[0], sizeof *sum);
    _tile_stored(1, &sum[0][1], sizeof *sum);
    if (two) {
        _tile_stored(2, sum[AMX_HALF], sizeof *sum);
        _tile_stored(3, &sum[AMX_HALF][1], sizeof *sum);
    }
    if (rows < MR) before_micro_kernels();
    apply_epilogue((int)rows, sum, c, ldc, end);
}

static void micro_kernel_plain(int64_t rows, int64_t k, const struct operands *x, void *c, int64_t ldc,
                                const struct epilogue *end, const struct prefetch *prefetch) {
    micro_kernel_body(rows, false, k, *x, c, ldc, end, prefetch);
}
static void micro_kernel_packs_b(int64_t rows, int64_t k, const struct operands *x, void *c, int64_t ldc,
                                  const struct epilogue *end, const struct prefetch *prefetch) {
    micro_kernel_body(rows, true, k, *x, c, ldc, end, prefetch);
}
static inline micro_kernel *micro_kernel_for(const struct operands *x, int64_t rows) {
    return (void)rows, x->pack ? micro_kernel_packs_b : micro_kernel_plain;
}
