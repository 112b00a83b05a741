/* Flash attention backward, causal, on tensor cores: bf16 and fp16. See attention.h for the formulas,
 * attention_flash_wmma.h for the tiles. Source: Dao et al. 2022, Dao 2023.
 *
 * p is recomputed from q, k and lse; ds = p (m dy v^T - delta). Two kernels, so that every sum has one owner and one
 * order:
 *
 *   keys      a block has 64 keys and goes over the queries from there on:   dv += (m p)^T dy     dk += ds^T q
 *             (of one head after the other that shares them)
 *   queries   a block has 64 queries and goes over the keys up to there:     dq += ds k
 *
 * Both make scores and dy v^T: 7 products where one kernel with atomic additions to dq needs 5, but the same bits each
 * time. Scores, dy v^T and sums are fp32; p and ds are rounded to the element type once, for their products. */
#if defined ELEM_bf16 || defined ELEM_fp16
#include "lib/ops/attention/attention_flash_wmma.h"

/* ---- dk and dv: rows are keys, columns queries ---- */

/* lse (in powers of two) and delta of 64 queries; after the last an infinite lse, which makes p zero. */
__device__ static inline void load_statistics(float *lse, float *delta, int64_t t0, const struct attention *a,
                                              const struct head *head) {
    int64_t t = t0 + threadIdx.x;
    if (threadIdx.x >= TILE) return;
    lse[threadIdx.x] = t < a->p.Tq ? head->lse[t] * LOG2_E : INFINITY;
    delta[threadIdx.x] = t < a->p.Tq ? head->delta[t] : 0.0f;
}

/* s (16 keys, 64 queries) becomes m p, dp = v dy^T becomes ds, as elems in the same rows. A lane has queries l and l +
 * 32, and of each four keys at a time, which are one Philox block. t0, j0: first query, first key. */
__device__ static inline void score_gradient_of_keys(float *s, float *dp, const float *lse, const float *delta,
                                                     int64_t t0, int64_t j0, const struct attention *a,
                                                     const struct head *head) {
    float scale = (float)a->p.scale * LOG2_E;
#pragma unroll 1
    for (int r = 0; r < ROWS; r += 4) {
        elem p[2][4], ds[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) {
            int q = lane() + 32 * i, seen = seen_of_tile(a, t0 + q, j0 + r, 4);
            float m[4];
            draw_four(m, a, head, t0 + q, j0 + r);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int at = (r + c) * S_LD + q;
                float probability = c < seen ? exp2f(s[at] * scale - lse[q]) : 0.0f;
                p[i][c] = store(m[c] * probability);
                ds[i][c] = store(probability * (m[c] * dp[at] - delta[q]));
            }
        }
        __syncwarp();   /* these four rows have been read */
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int at = (r + c) * P_LD + lane() + 32 * i;
                ((elem *)s)[at] = p[i][c];
                ((elem *)dp)[at] = ds[i][c];
            }
    }
    __syncwarp();
}

/* With heads up to 64 a multiprocessor's shared memory has room for this many blocks, on H100 and A100: registers
 * must not be what leaves one out. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
enum { KEYS_BLOCKS = 2 };
#else
enum { KEYS_BLOCKS = 3 };
#endif

template <int DP>
__global__ static void __launch_bounds__(THREADS, DP <= 64 ? KEYS_BLOCKS : 1)
flash_backward_keys_wmma(struct attention a) {
    SHARED_DYNAMIC(elem, shared);
    elem *k = shared, *v = k + TILE * (DP + 8), *q = v + TILE * (DP + 8), *dy = q + TILE * (DP + 8);
    float *squares = (float *)(dy + TILE * (DP + 8)), *lse = squares + 2 * TILE * S_LD, *delta = lse + TILE;
    float *s = squares + first_row() * S_LD, *dp = s + TILE * S_LD;
    int first_head = (int)block_head(a.p.Tk, TILE) * (int)a.p.shared_by, j0 = (int)block_tile(a.p.Tk, TILE),
        j = j0 + first_row();
    struct head head = head_of(&a, first_head);
    accumulator dk[DP / 16], dv[DP / 16];
    wmma_clear<DP>(dk);
    wmma_clear<DP>(dv);
    wmma_load<DP>(k, head.k, a.p.k.row, j0, a.p.Tk, &a);
    wmma_load<DP>(v, head.v, a.p.v.row, j0, a.p.Tk, &a);
    for (int i = 0; i < a.p.shared_by; i++) {
        head = head_of(&a, first_head + i);
        for (int t0 = (int)first_query(&a, j0); t0 < (int)a.p.Tq; t0 += TILE) {
            __syncthreads();   /* the last tile of queries has been used */
            wmma_load<DP>(q, head.q, a.p.q.row, t0, a.p.Tq, &a);
            wmma_load<DP>(dy, head.dy, a.p.dy.row, t0, a.p.Tq, &a);
            load_statistics(lse, delta, t0, &a, &head);
            __syncthreads();
            wmma_scores<DP>(s, k + first_row() * (DP + 8), q);
            wmma_scores<DP>(dp, v + first_row() * (DP + 8), dy);
            __syncwarp();
            score_gradient_of_keys(s, dp, lse, delta, t0, j, &a, &head);
            wmma_accumulate<DP>(dv, s, dy);
            wmma_accumulate<DP>(dk, dp, q);
        }
    }
    head = head_of(&a, first_head); /* again: what is needed after the loop alone needs no registers in it */
    wmma_store<DP>(gradient_rows(&a, a.p.dk, head.dk, a.p.Tk, a.p.add_keys), j, dk, (float)a.p.scale, s, &a);
    wmma_store<DP>(gradient_rows(&a, a.p.dv, head.dv, a.p.Tk, a.p.add_keys), j, dv, 1.0f, s, &a);
}

/* ---- dq: rows are queries, columns keys ---- */

/* s (16 queries, 64 keys) and dp = dy v^T become ds over s, as elems. Two lanes have a row; at step i they read groups
 * 2i and 2i + 1 of four keys, and then write their ds over what was group i. t: the lane's query; j0: first key. */
__device__ static inline void score_gradient_of_queries(float *s, const float *dp, float lse, float delta, int64_t t,
                                                        int64_t j0, const struct attention *a,
                                                        const struct head *head) {
    float *row = s + lane() / 2 * S_LD, scale = (float)a->p.scale * LOG2_E;
    const float *dp_row = dp + lane() / 2 * S_LD;
    int seen = seen_of_tile(a, t, j0, TILE);
#pragma unroll 1
    for (int i = 0; i < TILE / 8; i++) {
        int j = 8 * i + 4 * (lane() % 2);
        four_floats scores = *(const four_floats *)(row + j), products = *(const four_floats *)(dp_row + j);
        four_elems ds;
        float m[4];
        draw_four(m, a, head, t, j0 + j);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float probability = j + c < seen ? exp2f(scores.x[c] * scale - lse) : 0.0f;
            ds.x[c] = store(probability * (m[c] * products.x[c] - delta));
        }
        __syncwarp();
        *(four_elems *)((elem *)row + j) = ds;
    }
    __syncwarp();
}

template <int DP>
__global__ static void __launch_bounds__(THREADS) flash_backward_queries_wmma(struct attention a) {
    SHARED_DYNAMIC(elem, shared);
    elem *q = shared, *dy = q + TILE * (DP + 8), *k = dy + TILE * (DP + 8), *v = k + TILE * (DP + 8);
    float *s = (float *)(v + TILE * (DP + 8)) + first_row() * S_LD, *dp = s + TILE * S_LD;
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), t = t0 + first_row() + lane() / 2;
    float lse = t < a.p.Tq ? head.lse[t] * LOG2_E : INFINITY, delta = t < a.p.Tq ? head.delta[t] : 0.0f;
    accumulator dq[DP / 16];
    wmma_clear<DP>(dq);
    wmma_load<DP>(q, head.q, a.p.q.row, t0, a.p.Tq, &a);
    wmma_load<DP>(dy, head.dy, a.p.dy.row, t0, a.p.Tq, &a);
    for (int64_t j0 = 0; j0 < end_of_keys(&a, t0 + TILE); j0 += TILE) {
        __syncthreads();   /* the last tile of keys has been used */
        wmma_load<DP>(k, head.k, a.p.k.row, j0, a.p.Tk, &a);
        wmma_load<DP>(v, head.v, a.p.v.row, j0, a.p.Tk, &a);
        __syncthreads();
        wmma_scores<DP>(s, q + first_row() * (DP + 8), k);
        wmma_scores<DP>(dp, dy + first_row() * (DP + 8), v);
        __syncwarp();
        score_gradient_of_queries(s, dp, lse, delta, t, j0, &a, &head);
        wmma_accumulate<DP>(dq, s, k);
    }
    wmma_store<DP>(gradient_rows(&a, a.p.dq, head.dq, a.p.Tq, a.p.add_queries), t0 + first_row(), dq, (float)a.p.scale,
                   s, &a);
}

template <int DP> static enum status launch(const struct attention *a) {
    size_t bytes = wmma_shared(DP, 4, 2);
    GPU_ALLOW_SHARED(flash_backward_keys_wmma<DP>, bytes);
    LAUNCH(flash_backward_keys_wmma<DP>, key_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p))(*a);
    TRY(gpu_launched("flash_backward_keys_wmma"));
    GPU_ALLOW_SHARED(flash_backward_queries_wmma<DP>, bytes);
    LAUNCH(flash_backward_queries_wmma<DP>, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p))(*a);
    return gpu_launched("flash_backward_queries_wmma");
}

extern "C" enum status CUDA(attention_flash_backward)(const struct attention *a) {
    return WMMA_FOR_HEAD_SIZE(a->p.D, launch, a);
}
#endif
