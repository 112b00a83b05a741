/* y = x and the dot products of all pairs: two small matrix products for each sample. See interaction.h.
 *
 *   forward    y_ij = sum over d of a_i[d] a_j[d]   reads a_i in place, and a transposed copy of a_j
 *   backward   da_i = sum over j of dy_ij a_j       reads copies of a_j, and of dy as a symmetric matrix
 *
 * Blocks of ROWS x WIDTH results get DEPTH terms at a time (tile_product.h), so that the copies and the sums fit the
 * stack and the nearest cache for all F and D. bf16 and fp16 have no kernel. */
#include "lib/ops/cpu.h"
#include "lib/ops/rec/interaction.h"

#if defined ELEM_fp64 || defined ELEM_fp32
#include "lib/ops/gemm/tile_product.h"

kernel CPU(interaction_dots_forward), CPU(interaction_dots_backward_input);

enum { ROWS = 2 * TILE_ROWS, WIDTH = 2 * TILE_LANES, DEPTH = 64 };

/* a_0 .. a_F of a sample: x, and its features' vectors, `apart` numbers from one to the next. */
struct vectors { real *x, *first; int64_t F, D, apart; };
static struct vectors vectors_of(const struct type *pooled, real *x, real *first, int64_t s) {
    const struct axis *a = pooled->shape.axis;
    int64_t F = a[1].n, B = a[2].n, D = a[3].n;
    return (struct vectors){x + s * D, first + (s / B * F * B + s % B) * D, F, D, B * D};
}
static inline real *vector(const struct vectors *a, int64_t i) { return i == 0 ? a->x : a->first + (i - 1) * a->apart; }

static inline int64_t pair(int64_t i, int64_t j) { return i * (i - 1) / 2 + j; }   /* j < i */
static int64_t n_pairs(const struct vectors *a) { return pair(a->F + 1, 0); }

/* Columns of a block, when n are left: n or WIDTH, rounded up to whole registers. */
static int64_t width_of(int64_t n) { return (min64(n, WIDTH) + TILE_LANES - 1) / TILE_LANES * TILE_LANES; }

/* ---- forward ---- */
/* Numbers d .. d+depth-1 of a_j .. a_j+width-1, as (depth,width); zeros after a_F. */
static void transpose(const struct vectors *a, int64_t j, int64_t d, int64_t width, int64_t depth, real *to) {
    for (int64_t w = 0; w < width; w++)
        for (int64_t k = 0; k < depth; k++) to[k * width + w] = j + w <= a->F ? vector(a, j + w)[d + k] : 0;
}

/* Add the terms of numbers d .. d+DEPTH-1 to the products with a_j .. a_j+WIDTH-1. */
static void add_dots(const struct vectors *a, int64_t j, int64_t d, real *y) {
    int64_t width = width_of(a->F - j), depth = min64(DEPTH, a->D - d);
    real other[DEPTH * WIDTH];
    transpose(a, j, d, width, depth, other);
    for (int64_t i = j + 1; i <= a->F; i += ROWS) {
        int64_t rows = min64(ROWS, a->F + 1 - i);
        real sum[ROWS * WIDTH] = {0};
        tile_multiply_add(TILE_WHOLE, NULL, sum, rows, width, depth, vector(a, i) + d, a->apart, 1, other);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t w = 0; w < min64(width, i + r - j); w++)
                put(y + pair(i + r, j + w), sum[r * width + w], d > 0);
    }
}

enum status CPU(interaction_dots_forward)(const struct call *call) {
    const struct type *pooled = call->in[1].type;
    int64_t samples = type_n(pooled) / (pooled->shape.axis[1].n * pooled->shape.axis[3].n);
#pragma omp parallel for
    for (int64_t s = 0; s < samples; s++) {
        const struct vectors a = vectors_of(pooled, call->in[0].data, call->in[1].data, s);
        real *y = (real *)call->out[0].data + s * (a.D + n_pairs(&a));
        memcpy(y, a.x, (size_t)a.D * sizeof *y);
        for (int64_t j = 0; j < a.F; j += WIDTH)
            for (int64_t d = 0; d < a.D; d += DEPTH) add_dots(&a, j, d, y + a.D);
    }
    return OK;
}

/* ---- backward ---- */
/* Numbers d .. d+width-1 of a_j .. a_j+depth-1, as (depth,width); zeros beyond either end. */
static void copy(const struct vectors *a, int64_t j, int64_t d, int64_t width, int64_t depth, real *to) {
    for (int64_t k = 0; k < depth; k++)
        for (int64_t w = 0; w < width; w++) to[k * width + w] = d + w < a->D ? vector(a, j + k)[d + w] : 0;
}

/* dy_ij .. dy_ij+n-1, where dy_ji = dy_ij and dy_ii = 0 */
static void symmetric_row(const real *dy, int64_t i, int64_t j, int64_t n, real *to) {
    int64_t end = j + n;
    for (; j < min64(i, end); j++) *to++ = dy[pair(i, j)];
    if (j == i && j < end) *to++ = 0, j++;
    for (; j < end; j++) *to++ = dy[pair(j, i)];
}

/* Add the terms of a_j .. a_j+DEPTH-1 to numbers d .. d+WIDTH-1 of all da_i. */
static void add_gradients(const struct call *call, const struct vectors *a, const struct vectors *da, const real *dy,
                          int64_t j, int64_t d) {
    int64_t width = width_of(a->D - d), depth = min64(DEPTH, a->F + 1 - j), n = min64(width, a->D - d);
    real other[DEPTH * WIDTH], g[ROWS * DEPTH];
    copy(a, j, d, width, depth, other);
    for (int64_t i = 0; i <= a->F; i += ROWS) {
        int64_t rows = min64(ROWS, a->F + 1 - i);
        real sum[ROWS * WIDTH] = {0};
        if (i == 0 && j == 0) memcpy(sum, dy + d, (size_t)n * sizeof *sum);          /* of x itself */
        for (int64_t r = 0; r < rows; r++) symmetric_row(dy + a->D, i + r, j, depth, g + r * depth);
        tile_multiply_add(TILE_WHOLE, NULL, sum, rows, width, depth, g, depth, 1, other);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t w = 0; w < n; w++)
                put(vector(da, i + r) + d + w, sum[r * width + w], j > 0 || accumulates(call, i + r > 0));
    }
}

enum status CPU(interaction_dots_backward_input)(const struct call *call) {
    const struct type *pooled = call->in[1].type;
    int64_t samples = type_n(pooled) / (pooled->shape.axis[1].n * pooled->shape.axis[3].n);
#pragma omp parallel for
    for (int64_t s = 0; s < samples; s++) {
        const struct vectors a = vectors_of(pooled, call->in[0].data, call->in[1].data, s);
        const struct vectors da = vectors_of(pooled, call->din[0].data, call->din[1].data, s);
        const real *dy = (const real *)call->dout[0].data + s * (a.D + n_pairs(&a));
        for (int64_t d = 0; d < a.D; d += WIDTH)
            for (int64_t j = 0; j <= a.F; j += DEPTH) add_gradients(call, &a, &da, dy, j, d);
    }
    return OK;
}

#endif
