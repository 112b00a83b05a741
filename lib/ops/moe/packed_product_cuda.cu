/* The packed products. See packed_product.h. A block computes a tile of TILE x TILE sums of one expert. It loops over
 * the depths of the product, and copies DEPTH of them at a time to shared memory, in the order of memory:
 *
 *                          c         a               b               lines of b
 *   y = x W[e]^T           rows, K   rows of x       rows of W[e]    are columns of c
 *   dx = dy W[e]           rows, C   rows of dy      rows of W[e]    are depths
 *   dW[e] = dy^T x         K, C      rows of dy      rows of x       are depths, and so are those of a
 *
 * Tensor cores multiply bf16 and fp16; plain multiply-adds multiply fp32 and fp64, 4 x 4 sums a thread. All sums are
 * kept in full precision and rounded once, in an order that the counts fix. Tiles are not prefetched: to do so would be
 * the next step to make this faster. Source: Gale et al. 2022, "MegaBlocks", section 5. */
#include "lib/ops/groups_cuda.h"
#include "lib/ops/moe/packed_product.h"

extern "C" packed_product_kernel CUDA(packed_product);

enum {
    TILE = 64,
    DEPTH = 32,
    THREADS = 256,
    BLOCKS = sizeof(real) > 4 ? 1 : 2,                               /* of a multiprocessor */
    SUMS_LD = TILE + 8,                                              /* row length of a tile of sums in shared memory */
    ELEMS = TILE * (DEPTH + GROUP) > DEPTH * (TILE + GROUP) ? TILE * (DEPTH + GROUP) : DEPTH * (TILE + GROUP)
};

/* n rows of `width` elems, one after another. */
struct lines { const elem *at; int64_t n; int width, packed; };

/* ---- tiles in shared memory ---- */
/* Index of number i of a tile's TILE numbers at depth p. BY_DEPTH: lines are depths. */
template <bool BY_DEPTH> __device__ static inline int place(int i, int p) {
    return BY_DEPTH ? p * (TILE + GROUP) + i : i * (DEPTH + GROUP) + p;
}

template <bool BY_DEPTH>
__device__ static inline void load_tile(elem *tile, const struct lines &m, int64_t i, int64_t p) {
    const int groups = (BY_DEPTH ? TILE : DEPTH) / GROUP, n = BY_DEPTH ? DEPTH : TILE;
    int64_t first = BY_DEPTH ? p : i;
    int column = (int)(BY_DEPTH ? i : p);
    for (int x = threadIdx.x; x < n * groups; x += THREADS) {
        int line = x / groups, c = x % groups * GROUP;
        group v = group_zero();
        if (first + line < m.n && column + c < m.width)
            v = group_load(m.at + (first + line) * m.width, column + c, m.width, m.packed);
        *(group *)(tile + place<BY_DEPTH>(BY_DEPTH ? c : line, BY_DEPTH ? line : c)) = v;
    }
}

/* ---- sums ---- */
#if defined ELEM_bf16 || defined ELEM_fp16
namespace wmma = nvcuda::wmma;
/* A warp has 16 rows and 32 columns. */
struct sums { wmma::fragment<wmma::accumulator, 16, 16, 16, float> of[2]; };
__device__ static inline int warp_row(void) { return (int)(threadIdx.x / 64) * 16; }
__device__ static inline int warp_column(void) { return (int)(threadIdx.x / 32 % 2) * 32; }

__device__ static inline void sums_clear(struct sums *s) {
    for (int j = 0; j < 2; j++) wmma::fill_fragment(s->of[j], 0.0f);
}

template <class A_LAYOUT, class B_LAYOUT, bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ static inline void sums_add_fragments(struct sums *s, const elem *a, const elem *b) {
    const int a_ld = A_BY_DEPTH ? TILE + GROUP : DEPTH + GROUP, b_ld = B_BY_DEPTH ? TILE + GROUP : DEPTH + GROUP;
#pragma unroll
    for (int p = 0; p < DEPTH; p += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, elem, A_LAYOUT> left;
        wmma::load_matrix_sync(left, a + place<A_BY_DEPTH>(warp_row(), p), a_ld);
#pragma unroll
        for (int j = 0; j < 2; j++) {
            wmma::fragment<wmma::matrix_b, 16, 16, 16, elem, B_LAYOUT> right;
            wmma::load_matrix_sync(right, b + place<B_BY_DEPTH>(warp_column() + 16 * j, p), b_ld);
            wmma::mma_sync(s->of[j], left, right, s->of[j]);
        }
    }
}

template <bool BY_DEPTH> struct layout;
template <> struct layout<true> { typedef wmma::col_major a; typedef wmma::row_major b; };
template <> struct layout<false> { typedef wmma::row_major a; typedef wmma::col_major b; };
template <bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ static inline void sums_add(struct sums *s, const elem *a, const elem *b) {
    sums_add_fragments<typename layout<A_BY_DEPTH>::a, typename layout<B_BY_DEPTH>::b, A_BY_DEPTH, B_BY_DEPTH>(s, a, b);
}

__device__ static inline void sums_store(const struct sums *s, real *tile) {
    for (int j = 0; j < 2; j++)
        wmma::store_matrix_sync(tile + warp_row() * SUMS_LD + warp_column() + 16 * j, s->of[j], SUMS_LD,
                                wmma::mem_row_major);
}
#else
/* A thread has every 16th row and column. */
struct sums { real of[4][4]; };
__device__ static inline int thread_row(int i) { return (int)(threadIdx.x / 16) + 16 * i; }
__device__ static inline int thread_column(int j) { return (int)(threadIdx.x % 16) + 16 * j; }
#define FOR_SUMS(i, j)                                                                                                 \
    for (int i = 0; i < 4; i++)                                                                                        \
        for (int j = 0; j < 4; j++)

__device__ static inline void sums_clear(struct sums *s) { FOR_SUMS(i, j) s->of[i][j] = 0; }

template <bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ static inline void sums_add(struct sums *s, const elem *a, const elem *b) {
    for (int p = 0; p < DEPTH; p++) {
        real left[4], right[4];
        for (int i = 0; i < 4; i++) left[i] = load(a[place<A_BY_DEPTH>(thread_row(i), p)]);
        for (int j = 0; j < 4; j++) right[j] = load(b[place<B_BY_DEPTH>(thread_column(j), p)]);
        FOR_SUMS(i, j) s->of[i][j] += left[i] * right[j];
    }
}

__device__ static inline void sums_store(const struct sums *s, real *tile) {
    FOR_SUMS(i, j) tile[thread_row(i) * SUMS_LD + thread_column(j)] = s->of[i][j];
}
#endif

/* ---- a tile of the product ---- */
/* A block's shared memory: two tiles of elems, and at the end one tile of sums. */
union __align__(32) shared { struct { elem a[ELEMS], b[ELEMS]; } tiles; real sums[TILE * SUMS_LD]; };

/* s += a b, over all depths before the end of the lines of a and b. */
template <bool A_BY_DEPTH, bool B_BY_DEPTH>
__device__ static inline void multiply(struct sums *s, union shared *shared, const struct lines &a,
                                       const struct lines &b, int64_t i, int64_t j) {
    int64_t depth = A_BY_DEPTH ? a.n : a.width;
    for (int64_t p = 0; p < depth; p += DEPTH) {
        __syncthreads();                                             /* the previous tiles have been used */
        load_tile<A_BY_DEPTH>(shared->tiles.a, a, i, p);
        load_tile<B_BY_DEPTH>(shared->tiles.b, b, j, p);
        __syncthreads();
        sums_add<A_BY_DEPTH, B_BY_DEPTH>(s, shared->tiles.a, shared->tiles.b);
    }
}

/* A matrix of results; elems or reals. */
struct results { void *at; int64_t n; int width, reals, add; };

__device__ static inline void write(const struct results &c, const struct sums *s, union shared *shared, int64_t i,
                                    int64_t j) {
    __syncthreads();
    sums_store(s, shared->sums);
    __syncthreads();
    for (int x = threadIdx.x; x < TILE * TILE; x += THREADS) {
        int64_t row = i + x / TILE, column = j + x % TILE, at = row * c.width + column;
        if (row >= c.n || column >= c.width) continue;
        real value = shared->sums[x / TILE * SUMS_LD + x % TILE];
        if (c.reals) ((real *)c.at)[at] = c.add ? ((real *)c.at)[at] + value : value;
        else put((elem *)c.at + at, value, c.add);
    }
}

/* ---- whose rows ---- */
struct run { int64_t first, n; };

/* Rows of expert e in a box of `rows` rows; e = E: the rows of no expert. */
__device__ static inline struct run rows_of(const int32_t *counts, int E, int64_t rows, int e) {
    struct run r = {0, 0};
    for (int i = 0; i < e; i++) r.first += counts[i];
    r.n = e < E ? counts[e] : rows - r.first;
    return r;
}

/* The expert of a tile, by the tile's number in its box; E: no expert's rows; E + 1: past the last tile. *first: the
 * tile's first row. */
__device__ static inline int owner_of(const int32_t *counts, int E, int64_t rows, int64_t tile, int64_t *first) {
    int64_t begins = 0;
    for (int e = 0; e <= E; e++) {
        int64_t n = e < E ? counts[e] : rows - begins, tiles = (n + TILE - 1) / TILE;
        *first = tile * TILE;
        if (tile < tiles) return e;
        tile -= tiles, begins += n;
    }
    return E + 1;
}

struct sizes { int64_t boxes, rows; int E, m, n, k, a_packed, b_packed, reals, add; };

/* ---- kernels ---- */
/* c[row] = a[row] b[e]. There is a block for each tile of rows that a box may have, for each TILE columns, and for each
 * box. */
template <bool B_BY_DEPTH>
__global__ static void __launch_bounds__(THREADS, BLOCKS)
packed_rows_block_per_tile(void *c, const elem *a, const elem *b, const int32_t *counts, struct sizes s) {
    SHARED_DYNAMIC(union shared, shared);
    int64_t box = blockIdx.z, j = (int64_t)blockIdx.y * TILE, i;
    counts += box * s.E;
    int e = owner_of(counts, s.E, s.rows, blockIdx.x, &i);
    if (e > s.E) return;
    struct run r = rows_of(counts, s.E, s.rows, e);
    int64_t first = box * s.rows + r.first;
    struct lines left = {a + first * s.k, r.n, s.k, s.a_packed};
    struct lines right = {b + (int64_t)e * s.n * s.k, B_BY_DEPTH ? s.k : s.n, B_BY_DEPTH ? s.n : s.k, s.b_packed};
    int64_t size = s.reals ? sizeof(real) : sizeof(elem);
    struct results rows = {(char *)c + first * s.n * size, r.n, s.n, s.reals, s.add};
    struct sums sums;
    sums_clear(&sums);
    if (e < s.E) multiply<false, B_BY_DEPTH>(&sums, shared, left, right, i, j);
    write(rows, &sums, shared, i, j);
}

/* c[e] = sum over boxes of a^T b. There is a block for each tile of c[e]. */
__global__ static void __launch_bounds__(THREADS, BLOCKS)
packed_weight_block_per_tile(void *c, const elem *a, const elem *b, const int32_t *counts, struct sizes s) {
    SHARED_DYNAMIC(union shared, shared);
    int64_t i = (int64_t)blockIdx.x * TILE, j = (int64_t)blockIdx.y * TILE, e = blockIdx.z;
    struct sums sums;
    sums_clear(&sums);
    for (int64_t box = 0; box < s.boxes; box++) {
        struct run r = rows_of(counts + box * s.E, s.E, s.rows, (int)e);
        int64_t first = box * s.rows + r.first;
        struct lines left = {a + first * s.m, r.n, s.m, s.a_packed}, right = {b + first * s.n, r.n, s.n, s.b_packed};
        multiply<true, true>(&sums, shared, left, right, i, j);
    }
    int64_t size = s.reals ? sizeof(real) : sizeof(elem);
    struct results matrix = {(char *)c + e * s.m * s.n * size, s.m, s.n, s.reals, s.add};
    write(matrix, &sums, shared, i, j);
}

/* ---- launcher ---- */
static inline unsigned tiles_of(int64_t n) { return (unsigned)ceil_div(n, TILE); }

typedef void product(void *c, const elem *a, const elem *b, const int32_t *counts, struct sizes);

enum status CUDA(packed_product)(const struct packed_product *p, const struct device *d) {
    const struct gemm *g = &p->gemm;
    int a_width = (int)(g->transpose_a ? g->m : g->k), b_width = (int)(g->transpose_b ? g->k : g->n);
    struct sizes s = {p->boxes, p->rows, (int)p->experts, (int)g->m, (int)g->n, (int)g->k,
                      packs(a_width, p->a, NULL, NULL, NULL), packs(b_width, p->b, NULL, NULL, NULL),
                      g->c_dtype == REAL_DTYPE, g->beta != 0};
    product *kernel = g->transpose_a   ? packed_weight_block_per_tile
                      : g->transpose_b ? packed_rows_block_per_tile<false>
                                       : packed_rows_block_per_tile<true>;
    dim3 grid(g->transpose_a ? tiles_of(g->m) : (unsigned)(p->rows / TILE + p->experts + 1), tiles_of(g->n),
              (unsigned)(g->transpose_a ? p->experts : p->boxes));
    LAUNCH(kernel, grid, THREADS, sizeof(union shared), d->stream)
    (p->c, (const elem *)p->a, (const elem *)p->b, p->counts, s);
    return gpu_launched("packed_product");
}
