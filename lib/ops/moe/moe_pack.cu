/* Give choices their packed rows. See moe_pack.h. One block, in three steps:
 *
 *   a warp takes an expert   and counts the tokens that chose it, 32 choices at a time
 *   a thread takes a box     and computes the row at which each of its experts begins
 *   a warp takes an expert   and numbers its choices in order, from the row at which the expert begins
 *
 * There are only a few integers for each token, so this kernel is not optimised. */
#include "lib/device/gpu.h"
#include "lib/ops/moe/moe_pack.h"

extern "C" kernel moe_pack_forward_cuda;

enum { THREADS = 1024, WARPS = THREADS / 32 };

/* Choices of E experts, in boxes of N experts and `rows` rows. pick / places is the expert. */
struct sizes { int64_t choices, rows; int E, N, places; };

/* The lanes of this warp whose choices, from `first` on, are of expert e. Every lane calls it. */
__device__ static inline unsigned lanes_of(const struct sizes &s, const int32_t *picks, int64_t first, int e) {
    int64_t i = first + threadIdx.x % 32;
    return __ballot_sync(0xffffffffu, i < s.choices && picks[i] >= 0 && picks[i] / s.places == e);
}

__device__ static inline int count_rows(const struct sizes &s, const int32_t *picks, int e) {
    int count = 0;
    for (int64_t first = 0; first < s.choices; first += 32) count += __popc(lanes_of(s, picks, first, e));
    return count;
}

__device__ static inline void give_rows(const struct sizes &s, int32_t *rows, const int32_t *picks, int e, int next) {
    int lane = threadIdx.x % 32;
    for (int64_t first = 0; first < s.choices; first += 32) {
        unsigned lanes = lanes_of(s, picks, first, e);
        if (lanes >> lane & 1) rows[first + lane] = next + __popc(lanes & ((1u << lane) - 1));
        next += __popc(lanes);
    }
}

/* begins (E) is scratch. */
__global__ static void __launch_bounds__(THREADS)
moe_pack_one_block(int32_t *rows, int32_t *counts, int32_t *begins, const int32_t *picks, struct sizes s) {
    for (int e = threadIdx.x / 32; e < s.E; e += WARPS) {
        int n = count_rows(s, picks, e);
        if (threadIdx.x % 32 == 0) counts[e] = n;
    }
    for (int64_t i = threadIdx.x; i < s.choices; i += THREADS)
        if (picks[i] < 0) rows[i] = -1;
    __syncthreads();
    for (int box = threadIdx.x; box < s.E / s.N; box += THREADS) {
        int64_t next = box * s.rows;
        for (int e = box * s.N; e < (box + 1) * s.N; e++) begins[e] = (int32_t)next, next += counts[e];
    }
    __syncthreads();
    for (int e = threadIdx.x / 32; e < s.E; e += WARPS) give_rows(s, rows, picks, e, begins[e]);
}

enum status moe_pack_forward_cuda(const struct call *call) {
    const struct moe_rule *rule = &call->step->moe;
    int64_t choices = type_n(call->in[0].type), rows = moe_boxes(call->step, choices / rule->k).rows;
    struct sizes s = {choices, rows, (int)rule->experts, (int)(rule->experts / call->step->parts), (int)rule->places};
    return LAUNCHED(moe_pack_one_block, 1, THREADS, 0, call->device->stream, (int32_t *)call->out[0].data,
                    (int32_t *)call->out[1].data, (int32_t *)call->work, (const int32_t *)call->in[0].data, s);
}
