/* Rotate pairs of channels. See rope.h. A block takes a position, and computes its cosines and sines once, in shared
 * memory, for all heads of all samples. One angle in double per pair and position is little work compared with the
 * rotation of B H pairs. Memory-bound: 2 elements moved for each one computed. */
#include "lib/ops/cuda.h"
#include "lib/ops/rope.h"

extern "C" { kernel CUDA(rope_forward), CUDA(rope_backward_input); }

enum { THREADS = 256, MAX_PAIRS = ROPE_CUDA_MAX_D / 2 };

/* The global positions of a shard of the sequence, as in axis_global. */
struct places { int64_t first, turn, jump; };

/* Each pair's speed, and the factor of cosines and sines. The host computes the speeds. */
struct speeds { double of_pair[MAX_PAIRS], scale; };

static struct speeds speeds_of(const struct rope_rule *rule, int64_t half) {
    struct speeds s;
    rope_speeds(rule, half, s.of_pair);
    s.scale = rope_attention(rule);
    return s;
}

__device__ static inline void turn_pair(elem *y, const elem *x, real cosine, real sine, int64_t apart,
                                        int accumulate) {
    real a = load(x[0]), b = load(x[apart]);   /* y may be x */
    put(y, a * cosine - b * sine, accumulate);
    put(y + apart, b * cosine + a * sine, accumulate);
}

/* way: 1 forward, -1 backward */
__global__ static void __launch_bounds__(THREADS)
rope_block_per_position(elem *y, const elem *x, const struct speeds speeds, struct rope_sizes s, struct places places,
                        int way, int accumulate) {
    __shared__ real cosine[MAX_PAIRS], sine[MAX_PAIRS];
    int half = (int)s.pairs;
    int64_t row = s.heads * s.D, rest = row - s.turned * s.D, before = s.turned * s.first;
    int64_t t = blockIdx.x, place = places.first + t + (t >= places.turn ? places.jump : 0);
    for (int i = threadIdx.x; i < half; i += blockDim.x) {
        double angle = (double)(way * place) * speeds.of_pair[i];
        cosine[i] = (real)(speeds.scale * cos(angle)), sine[i] = (real)(speeds.scale * sin(angle));
    }
    __syncthreads();
    for (int64_t i = threadIdx.x; i < s.B * s.turned * half; i += blockDim.x) {
        int64_t b = i / (s.turned * half), head = (b * s.T + t) * row + i / half % s.turned * s.D;
        int64_t at = head + s.first + i % half * s.step;
        turn_pair(y + at, x + at, cosine[i % half], sine[i % half], s.apart, accumulate);
    }
    for (int64_t i = threadIdx.x; i < s.B * before && (y != x || accumulate); i += blockDim.x) {
        int64_t at = (i / before * s.T + t) * row + i % before / s.first * s.D + i % s.first;
        put(y + at, load(x[at]), accumulate);
    }
    for (int64_t i = threadIdx.x; i < s.B * rest && (y != x || accumulate); i += blockDim.x) {
        int64_t at = (i / rest * s.T + t) * row + s.turned * s.D + i % rest;
        put(y + at, load(x[at]), accumulate);
    }
}

static enum status turn(const struct call *call, const void *x, void *y, int way, int accumulate) {
    struct rope_sizes s = rope_sizes(call);
    const struct axis *t = &call->in[0].type->shape.axis[1];
    struct places places = {t->first, t->turn, t->jump};
    return LAUNCHED(rope_block_per_position, (unsigned)s.T, THREADS, 0, stream_of(call), (elem *)y, (const elem *)x,
                    speeds_of(&call->step->rope, s.pairs), s, places, way, accumulate);
}

enum status CUDA(rope_forward)(const struct call *call) {
    return turn(call, call->in[0].data, call->out[0].data, 1, 0);
}

enum status CUDA(rope_backward_input)(const struct call *call) {
    return turn(call, call->dout[0].data, call->din[0].data, -1, accumulates(call, 0));
}
