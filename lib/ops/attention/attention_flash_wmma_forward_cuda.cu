/* Flash attention forward, causal, on tensor cores: bf16 and fp16. See attention.h for the formulas,
 * attention_flash_wmma.h for the tiles. Source: Dao et al. 2022; Dao 2023 (queries outside, keys inside); Milakov and
 * Gimelshein 2018.
 *
 * A block has 64 queries and goes over the tiles of keys up to its own:
 *
 *   s = q k^T / sqrt(D)               M' = max(M, max_j s)               p = e^(s - M')
 *   l = l e^(M - M') + sum_j p        y = y e^(M - M') + (m p) v
 *
 * and at the end y / l, lse = M + log l. Scores, M, l and y are fp32; p is rounded to the element type once, for its
 * product with v. A row of scores belongs to two lanes of one warp, which have every other group of four keys: a group
 * is a Philox block. The only barriers of the block are those around the loads of k and v. */
#if defined ELEM_bf16 || defined ELEM_fp16
#include "lib/ops/attention/attention_flash_wmma.h"

/* The running softmax of one query, in powers of two; both lanes of a row have the same. */
struct softmax { float max, sum; };

/* The lane's row of scratch: scores become m p, and the factor by which y shrinks is added. t: the lane's query; j0:
 * first key of the tile. */
template <bool VIEW>
__device__ static inline void soften(float *scratch, struct softmax *run, int64_t t, int64_t j0,
                                     const struct attention *a, const struct head *head) {
    float *row = scratch + lane() / 2 * S_LD<TILE>, s[TILE / 2], tile_max = -INFINITY, tile_sum = 0;
    float scale = (float)a->p.scale * LOG2_E;
    int odd = lane() % 2;
    struct seen seen = seen_of_tile<VIEW>(a, t, j0, TILE);
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
        int j = 8 * i + 4 * odd;
        four_floats four = *(const four_floats *)(row + j);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            s[4 * i + c] = is_seen<VIEW>(seen, j + c) ? score_of<VIEW>(a, four.x[c], scale) : -INFINITY;
            tile_max = fmaxf(tile_max, s[4 * i + c]);
        }
    }
    float max = fmaxf(run->max, fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, 1)));
    float base = base_of<VIEW>(max), shrink = exp2f(run->max - base);
    __syncwarp();   /* the whole row of scores is read, so p may overwrite it */
#pragma unroll
    for (int i = 0; i < TILE / 8; i++) {
        int j = 8 * i + 4 * odd;
        four_elems p;
        float m[4];
        draw_four(m, a, head, t, j0 + j);
#pragma unroll
        for (int c = 0; c < 4; c++) {
            float x = exp2f(s[4 * i + c] - base);
            tile_sum += x;
            p.x[c] = store(m[c] * x);
        }
        *(four_elems *)((elem *)row + j) = p;
    }
#pragma unroll
    for (int i = 0; i < 8; i++) row[F_AT + 8 * odd + i] = shrink;
    run->sum = run->sum * shrink + tile_sum + __shfl_xor_sync(0xffffffffu, tile_sum, 1);
    run->max = max;
    __syncwarp();
}

/* Store y / l, by the factors in the scratch, and lse. */
template <int DP, bool VIEW>
__device__ static inline void finish(accumulator o[DP / 16], float *scratch, const struct softmax *run, int64_t t0,
                                     const struct attention *a, const struct head *head) {
    float *factor = scratch + lane() / 2 * S_LD<TILE> + F_AT + 8 * (lane() % 2);
    int64_t t = t0 + lane() / 2;
    __syncwarp();
#pragma unroll
    for (int i = 0; i < 8; i++) factor[i] = one_over<VIEW>(run->sum);
    __syncwarp();
    wmma_rescale<DP>(o, scratch);
    struct rows_out y = {head->y, 0, a->p.y.row, a->p.Tq, false, false};
    wmma_store<DP>(y, t0, o, 1.0f, scratch, a);
    if (t < a->p.Tq && lane() % 2 == 0) head->lse[t] = (run->max + log2f(run->sum)) * LN_2;
}

template <int DP, bool VIEW>
__global__ static void __launch_bounds__(THREADS) flash_forward_wmma(struct attention a) {
    SHARED_DYNAMIC(elem, shared);
    elem *q = shared, *k = q + TILE * (DP + 8), *v = k + TILE * (DP + 8);
    float *scratch = (float *)(v + TILE * (DP + 8)) + first_row() * S_LD<TILE>;
    struct head head = head_of(&a, block_head(a.p.Tq, TILE));
    int64_t t0 = block_tile_from_end(a.p.Tq, TILE);
    float sink = sink_of<VIEW>(&a, &head);
    struct softmax run = {sink * LOG2_E, sink > -INFINITY ? 1.0f : 0.0f};
    accumulator o[DP / 16];
    wmma_clear<DP>(o);
    wmma_load<DP>(q, head.q, a.p.q.row, t0, a.p.Tq, &a);
    for (int64_t j0 = first_key<VIEW>(&a, t0, TILE); j0 < end_of_keys(&a, t0 + TILE); j0 += TILE) {
        __syncthreads();   /* the last tile of keys has been used */
        wmma_load<DP>(k, head.k, a.p.k.row, j0, a.p.Tk, &a);
        wmma_load<DP>(v, head.v, a.p.v.row, j0, a.p.Tk, &a);
        __syncthreads();
        wmma_scores<DP>(scratch, q + first_row() * (DP + 8), k);
        __syncwarp();
        soften<VIEW>(scratch, &run, t0 + first_row() + lane() / 2, j0, &a, &head);
        wmma_rescale<DP>(o, scratch);
        wmma_accumulate<DP>(o, scratch, v);
    }
    finish<DP, VIEW>(o, scratch, &run, t0 + first_row(), &a, &head);
}

template <int DP, bool VIEW> static enum status launch(const struct attention *a) {
    const auto flash_forward = flash_forward_wmma<DP, VIEW>;
    size_t bytes = wmma_shared<DP, TILE>(1, 2, 1);
    GPU_ALLOW_SHARED(flash_forward, bytes);
    return LAUNCHED(flash_forward, query_blocks(a, TILE), THREADS, bytes, pair_stream(&a->p), *a);
}

extern "C" enum status CUDA(attention_flash_forward)(const struct attention *a) {
    return WMMA_FOR_PAIR(a, launch);
}
#endif
