/* Flash attention backward, causal, on tensor cores: bf16 and fp16. See attention.h for the formulas,
 * attention_flash_wmma.h for the tiles. Source: Dao et al. 2022, Dao 2023.
 *
 * p is recomputed from q, k and lse; ds = p (m dy v^T - delta). Two kernels, so that every sum has one owner and one
 * order:
 *
 *   keys      a block has 64 keys and goes over the queries from there on:   dv += (m p)^T dy     dk += ds^T q
 *             (of the heads that share them, one after the other)
 *   queries   a block has 64 queries and goes over the keys up to there:     dq += ds k
 *
 * Both kernels compute scores and dy v^T, 7 products in all. One kernel with atomic additions to dq needs 5 products,
 * but its bits change from run to run. Scores, dy v^T and sums are fp32; p and ds are rounded to the element type once,
 * for their products.
 *
 * dk and dv of 64 keys are 2 x 64 D floats, which stay in registers: for D = 128, 128 of a thread's 255. For larger
 * heads the first kernel runs twice, once for dk and once for dv, so that scores are computed three times. */
#if defined ELEM_bf16 || defined ELEM_fp16
#include "lib/ops/attention/attention_flash_wmma.h"

/* ---- dk and dv: rows are keys, columns queries ---- */

enum what { DK = 1, DV = 2 };

/* Columns in a tile. */
template <int DP> static constexpr int COLUMNS = DP > 160 ? TILE / 2 : TILE;

/* lse (base 2) and delta of N queries. After the last query lse is infinite, which makes p zero. */
template <int N>
__device__ static inline void load_statistics(float *lse, float *delta, int64_t t0, const struct attention *a,
                                              const struct head *head) {
    int64_t t = t0 + threadIdx.x;
    if (threadIdx.x >= N) return;
    lse[threadIdx.x] = t < a->p.Tq ? head->lse[t] * LOG2_E : INFINITY;
    delta[threadIdx.x] = t < a->p.Tq ? head->delta[t] : 0.0f;
}

/* s (16 keys, N queries) becomes m p, and dp = v dy^T becomes ds, as elems in the same rows; WHAT selects one or both.
 * Lane l has query l, and if N is 64 query l + 32. It takes four keys at a time, which are one Philox block. t0, j0:
 * first query, first key. */
template <int N, int WHAT, bool VIEW>
__device__ static inline void score_gradient_of_keys(float *s, float *dp, const float *lse, const float *delta,
                                                     int64_t t0, int64_t j0, const struct attention *a,
                                                     const struct head *head) {
    float scale = (float)a->p.scale * LOG2_E;
#pragma unroll 1
    for (int r = 0; r < ROWS; r += 4) {
        elem p[N / 32][4], ds[N / 32][4];
#pragma unroll
        for (int i = 0; i < N / 32; i++) {
            int q = lane() + 32 * i;
            struct seen seen = seen_of_tile<VIEW>(a, t0 + q, j0 + r, 4);
            float m[4];
            draw_four(m, a, head, t0 + q, j0 + r);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int at = (r + c) * S_LD<N> + q;
                float probability = is_seen<VIEW>(seen, c) ? exp2f(score_of<VIEW>(a, s[at], scale) - lse[q]) : 0.0f;
                if (WHAT & DV) p[i][c] = store(m[c] * probability);
                float slope = slope_of<VIEW>(a, s[at], scale);
                if (WHAT & DK) ds[i][c] = store(probability * (m[c] * dp[at] - delta[q]) * slope);
            }
        }
        __syncwarp();   /* these four rows have been read */
#pragma unroll
        for (int i = 0; i < N / 32; i++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                int at = (r + c) * P_LD<N> + lane() + 32 * i;
                if (WHAT & DV) ((elem *)s)[at] = p[i][c];
                if (WHAT & DK) ((elem *)dp)[at] = ds[i][c];
            }
    }
    __syncwarp();
}

/* For heads up to 64 channels, a multiprocessor of an H100 or A100 has shared memory for this many blocks. Registers
 * must not lower that number. */
#if defined __CUDA_ARCH__ && __CUDA_ARCH__ < 900
enum { KEYS_BLOCKS = 2 };
#else
enum { KEYS_BLOCKS = 3 };
#endif

template <int DP, int WHAT, bool VIEW>
__global__ static void __launch_bounds__(THREADS, DP <= 64 ? KEYS_BLOCKS : 1)
flash_backward_keys_wmma(struct attention a) {
    SHARED_DYNAMIC(elem, shared);
    const int N = COLUMNS<DP>;
    elem *k = shared, *v = k + TILE * (DP + 8), *q = v + TILE * (DP + 8), *dy = q + N * (DP + 8);
    float *squares = (float *)(dy + N * (DP + 8)), *lse = squares + 2 * TILE * S_LD<N>, *delta = lse + N;
    float *s = squares + first_row() * S_LD<N>, *dp = s + TILE * S_LD<N>;
    int first_head = (int)block_head(a.p.Tk, TILE) * (int)a.p.shared_by, j0 = (int)block_tile(a.p.Tk, TILE),
        j = j0 + first_row();
    struct head head = head_of(&a, first_head);
    accumulator dk[DP / 16], dv[DP / 16];
    if (WHAT & DK) wmma_clear<DP>(dk);
    if (WHAT & DV) wmma_clear<DP>(dv);
    wmma_load<DP>(k, head.k, a.p.k.row, j0, a.p.Tk, &a);
    if (WHAT & DK) wmma_load<DP>(v, head.v, a.p.v.row, j0, a.p.Tk, &a);
    for (int i = 0; i < a.p.shared_by; i++) {
        head = head_of(&a, first_head + i);
        for (int t0 = (int)first_query(&a, j0); t0 < (int)end_of_queries<VIEW>(&a, j0, TILE); t0 += N) {
            __syncthreads();   /* the last tile of queries has been used */
            wmma_load<DP, N>(q, head.q, a.p.q.row, t0, a.p.Tq, &a);
            wmma_load<DP, N>(dy, head.dy, a.p.dy.row, t0, a.p.Tq, &a);
            load_statistics<N>(lse, delta, t0, &a, &head);
            __syncthreads();
            wmma_scores<DP, N>(s, k + first_row() * (DP + 8), q);
            if (WHAT & DK) wmma_scores<DP, N>(dp, v + first_row() * (DP + 8), dy);
            __syncwarp();
            score_gradient_of_keys<N, WHAT, VIEW>(s, dp, lse, delta, t0, j, &a, &head);
            if (WHAT & DV) wmma_accumulate<DP, N>(dv, s, dy);
            if (WHAT & DK) wmma_accumulate<DP, N>(dk, dp, q);
        }
    }
    head = head_of(&a, first_head);   /* computed again, to use no registers in the loop */
    const struct rows_out to_k = gradient_rows(&a, a.p.dk, head.dk, a.p.Tk, a.p.add_keys),
                          to_v = gradient_rows(&a, a.p.dv, head.dv, a.p.Tk, a.p.add_keys);
    if (WHAT & DK) wmma_store<DP, N>(to_k, j, dk, (float)a.p.scale, s, &a);
    if (WHAT & DV) wmma_store<DP, N>(to_v, j, dv, 1.0f, s, &a);
}

/* ---- dq: rows are queries, columns keys ---- */

/* Compute ds, as elems, from s (16 queries, N keys) and dp = dy v^T; ds overwrites s. Two lanes have a row. At step i
 * they read groups 2i and 2i + 1 of four keys, and write their ds over group i. t: the lane's query; j0: first key. */
template <int N, bool VIEW>
__device__ static inline void score_gradient_of_queries(float *s, const float *dp, float lse, float delta, int64_t t,
                                                        int64_t j0, const struct attention *a,
                                                        const struct head *head) {
    float *row = s + lane() / 2 * S_LD<N>, scale = (float)a->p.scale * LOG2_E;
    const float *dp_row = dp + lane() / 2 * S_LD<N>;
    struct seen seen = seen_of_tile<VIEW>(a, t, j0, N);
#pragma unroll 1
    for (int i = 0; i < N / 8; i++) {
        int j = 8 * i + 4 * (lane() % 2);
        four_floats scores = *(const four_floats *)(row + j), products = *(const four_floats *)(dp_row + j);
        four_elems ds;
        float m[4];
        draw_four(m, a, head, t, j0 + j);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float probability = is_seen<VIEW>(seen, j + c) ? exp2f(score_of<VIEW>(a, scores.x[c], scale) - lse) : 0.0f;
            ds.x[c] = store(probability * (m[c] * products.x[c] - delta) * slope_of<VIEW>(a, scores.x[c], scale));
        }
        __syncwarp();
        *(four_elems *)((elem *)row + j) = ds;
    }
    __syncwarp();
}

template <int DP, bool VIEW>
__global__ static void __launch_bounds__(THREADS) flash_backward_queries_wmma(struct attention a) {
    SHARED_DYNAMIC(elem, shared);
    const int N = COLUMNS<DP>;
    elem *q = shared, *dy = q + TILE * (DP + 8), *k = dy + TILE * (DP + 8), *v = k + N * (DP + 8);
    float *s = (float *)(v + N * (DP + 8)) + first_row() * S_LD<N>, *dp = s + TILE * S_LD<N>;
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE), t = t0 + first_row() + lane() / 2;
    float lse = t < a.p.Tq ? head.lse[t] * LOG2_E : INFINITY, delta = t < a.p.Tq ? head.delta[t] : 0.0f;
    accumulator dq[DP / 16];
    wmma_clear<DP>(dq);
    wmma_load<DP>(q, head.q, a.p.q.row, t0, a.p.Tq, &a);
    wmma_load<DP>(dy, head.dy, a.p.dy.row, t0, a.p.Tq, &a);
    for (int64_t j0 = first_key<VIEW>(&a, t0, N); j0 < end_of_keys(&a, t0 + TILE); j0 += N) {
        __syncthreads();   /* the last tile of keys has been used */
        wmma_load<DP, N>(k, head.k, a.p.k.row, j0, a.p.Tk, &a);
        wmma_load<DP, N>(v, head.v, a.p.v.row, j0, a.p.Tk, &a);
        __syncthreads();
        wmma_scores<DP, N>(s, q + first_row() * (DP + 8), k);
        wmma_scores<DP, N>(dp, dy + first_row() * (DP + 8), v);
        __syncwarp();
        score_gradient_of_queries<N, VIEW>(s, dp, lse, delta, t, j0, &a, &head);
        wmma_accumulate<DP, N>(dq, s, k);
    }
    const struct rows_out to_q = gradient_rows(&a, a.p.dq, head.dq, a.p.Tq, a.p.add_queries);
    wmma_store<DP, N>(to_q, t0 + first_row(), dq, (float)a.p.scale, s, &a);
}

template <int DP, int WHAT, bool VIEW> static enum status launch_keys(const struct attention *a, size_t bytes) {
    const auto flash_backward_keys = flash_backward_keys_wmma<DP, WHAT, VIEW>;
    GPU_ALLOW_SHARED(flash_backward_keys, bytes);
    LAUNCH(flash_backward_keys, key_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p))(*a);
    return gpu_launched("flash_backward_keys_wmma");
}

template <int DP, bool VIEW> static enum status launch(const struct attention *a) {
    size_t bytes = wmma_shared<DP, COLUMNS<DP>>(2, 2, 2);
    if constexpr (DP <= 128) {
        TRY((launch_keys<DP, DK | DV, VIEW>(a, bytes)));
    } else {
        TRY((launch_keys<DP, DK, VIEW>(a, bytes)));
        TRY((launch_keys<DP, DV, VIEW>(a, bytes)));
    }
    const auto flash_backward_queries = flash_backward_queries_wmma<DP, VIEW>;
    GPU_ALLOW_SHARED(flash_backward_queries, bytes);
    return LAUNCHED(flash_backward_queries, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p), *a);
}

extern "C" enum status CUDA(attention_flash_backward)(const struct attention *a) {
    return WMMA_FOR_PAIR(a, launch);
}
#endif
