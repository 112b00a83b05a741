/* Top-k of the softmax, places by the dropping rule, and the two losses. See moe_route.h. A block takes a group:
 *
 *   a thread takes a token   softmax, choices and gates as on the CPU, so the same experts are chosen
 *   a warp takes an expert   places for the tokens that chose it, 32 choices at a time, in order: the place is the
 *                            number of earlier choices of the expert; then the expert's mean of P, over its lanes
 *
 * The sizes fix the order of all sums. This kernel is not optimised, because it does little work compared with the
 * experts' products. */
#include "lib/ops/cuda.h"
#include "lib/ops/moe/moe_route.h"
#include "lib/ops/sum_double.h"

extern "C" { kernel CUDA(moe_route_forward), CUDA(moe_route_backward_input), CUDA(moe_route_backward_weight); }

enum { THREADS = 256, WARPS = THREADS / 32 };

/* S places; N = loss_weight (backward: x loss_scale). divides: gates are divided by their sum. sets of `set` experts
 * each, and scale, the factor of gates. bias NULL: 0. */
struct sizes {
    int64_t groups;
    int E, k, g, S, divides, sigmoid, sets, set, sets_per_token;
    real N, aux, z, scale;
    const real *bias;
};
static struct sizes sizes_of(const struct call *call) {
    const struct moe_rule *rule = &call->step->moe;
    int64_t E = call->in[0].type->shape.axis[2].n, tokens = type_n(call->in[0].type) / E;
    int sets = rule->sets ? (int)rule->sets : 1;
    struct sizes s = {tokens / rule->group, (int)E, (int)rule->k, (int)rule->group, (int)rule->places,
                      rule->k > 1 && !rule->raw, rule->sigmoid, sets, (int)E / sets, (int)rule->sets_per_token,
                      (real)call->loss_weight, (real)rule->aux, (real)rule->z,
                      rule->scale > 0 ? (real)rule->scale : (real)1,
                      call->step->n_weight ? (const real *)call->weight[0].data : NULL};
    return s;
}

/* P[e] of a token; returns lse. */
__device__ static inline real softmax(const elem *logits, real *P, int E) {
    real max = load(logits[0]), sum = 0;
    for (int e = 1; e < E; e++) max = load(logits[e]) > max ? load(logits[e]) : max;
    for (int e = 0; e < E; e++) sum += P[e] = exp(load(logits[e]) - max);
    real scale = 1 / sum;
    for (int e = 0; e < E; e++) P[e] *= scale;
    return max + (real)log(sum);
}

/* The scores of a token, of which gates are parts; returns lse. */
__device__ static inline real scores(const struct sizes &s, const elem *logits, real *P) {
    real lse = softmax(logits, P, s.E);
    for (int e = 0; e < s.E && s.sigmoid; e++) P[e] = 1 / (1 + exp(-load(logits[e])));
    return lse;
}

/* P = s / sum s, of which the losses are. */
__device__ static inline void divide_by_sum(real *P, int E) {
    real sum = 0;
    for (int e = 0; e < E; e++) sum += P[e];
    for (int e = 0; e < E; e++) P[e] /= sum;
}

__device__ static inline int expert_of(int32_t pick, int S) { return pick < 0 ? -1 - pick : pick / S; }

/* ---- forward ---- */

/* What expert e is chosen by. */
__device__ static inline real value(const struct sizes &s, const elem *logits, const real *P, int e) {
    return s.sigmoid ? P[e] + (s.bias ? s.bias[e] : (real)0) : load(logits[e]);
}

__device__ static inline real value_of_set(const struct sizes &s, const elem *logits, const real *P, int set) {
    real first = value(s, logits, P, set * s.set), second = -INFINITY;
    for (int e = set * s.set + 1; e < (set + 1) * s.set; e++) {
        real x = value(s, logits, P, e);
        second = x > first ? first : x > second ? x : second;
        first = x > first ? x : first;
    }
    return s.sigmoid && s.set > 1 ? first + second : first;
}

/* The sets that a token's experts are in, as bits. */
__device__ static inline uint64_t choose_sets(const struct sizes &s, const elem *logits, const real *P) {
    uint64_t chosen = s.sets == 1;
    for (int j = 0; j < s.sets_per_token && s.sets > 1; j++) {
        int best = -1;
        real most = 0;
        for (int set = 0; set < s.sets; set++) {
            real x = chosen >> set & 1 ? (real)0 : value_of_set(s, logits, P, set);
            if (!(chosen >> set & 1) && (best < 0 || x > most)) best = set, most = x;
        }
        chosen |= (uint64_t)1 << best;
    }
    return chosen;
}

/* The expert of the largest value, in one of the sets, that is not among the n choices before. Choices of a token are g
 * apart. */
__device__ static inline int32_t choose(const struct sizes &s, const elem *logits, const real *P, uint64_t sets,
                                        const int32_t *before, int n) {
    int32_t best = -1;
    for (int32_t e = 0; e < s.E; e++) {
        bool taken = !(sets >> (e / s.set) & 1);
        for (int i = 0; i < n; i++) taken = taken || before[i * s.g] == e;
        if (!taken && (best < 0 || value(s, logits, P, e) > value(s, logits, P, best))) best = e;
    }
    return best;
}

/* Choose the experts and gates of one token; P is that of the losses. Returns lse. */
__device__ static inline real route_token(const struct sizes &s, const elem *logits, elem *gates, int32_t *choice,
                                          real *P) {
    real lse = scores(s, logits, P), sum = 0;
    uint64_t sets = choose_sets(s, logits, P);
    for (int j = 0; j < s.k; j++) {
        choice[j * s.g] = choose(s, logits, P, sets, choice, j);
        sum += P[choice[j * s.g]];
    }
    real scale = s.divides ? s.scale / sum : s.scale;
    for (int j = 0; j < s.k; j++) gates[j] = store(P[choice[j * s.g]] * scale);
    if (s.sigmoid) divide_by_sum(P, s.E);
    return lse;
}

/* Give the choices (k, g) of expert e their places; returns how many chose it. */
__device__ static inline int give_places(const struct sizes &s, int32_t *picks, const int32_t *choice, int e) {
    int lane = threadIdx.x % 32, count = 0;
    for (int first = 0; first < s.k * s.g; first += 32) {
        int i = first + lane, mine = i < s.k * s.g && choice[i] == e;
        unsigned lanes = __ballot_sync(0xffffffffu, mine);
        int place = count + __popc(lanes & ((1u << lane) - 1));
        if (mine) picks[i % s.g * s.k + i / s.g] = place < s.S ? e * s.S + place : -1 - e;
        count += __popc(lanes);
    }
    return count;
}

__device__ static inline real mean_of(const struct sizes &s, const real *P, int e) {
    real sum = 0;
    for (int t = threadIdx.x % 32; t < s.g; t += 32) sum += P[(int64_t)t * s.E + e];
    return warp_sum(sum) / (real)s.g;
}

/* The terms of the losses: first of one expert in each lane of its warp, then of all experts. */
struct tally { real squares, balance, most, dropped; };
__device__ static inline struct tally add_up(struct tally a, real shared[][32]) {
    int first_lane = threadIdx.x % 32 == 0;
    a.squares = block_sum(a.squares, shared[0]);
    a.balance = block_sum(first_lane ? a.balance : (real)0, shared[1]);
    a.most = block_max(a.most, shared[2]);
    a.dropped = block_sum(first_lane ? a.dropped : (real)0, shared[3]);
    return a;
}

__device__ static inline void write_sums(const struct sizes &s, const struct tally &a, real *sums) {
    real share = (real)s.g * s.N;                                   /* the group's share of the global batch's tokens */
    sums[0] = s.aux * (real)s.E * share * a.balance + s.z * s.N * a.squares;
    sums[1] = share * a.most * (real)s.E / (real)(s.g * s.k);
    sums[2] = s.N * a.dropped / (real)s.k;
}

/* P (tokens, E), sums (groups, 3) and choice (groups, k, g) are scratch. Without the 1 in the launch bounds of both
 * kernels the compiler would spill registers to have more blocks. */
__global__ static void __launch_bounds__(THREADS, 1)
moe_route_forward_block_per_group(elem *gates, int32_t *picks, const elem *logits, real *P, real *sums,
                                  int32_t *choice, struct sizes s) {
    __shared__ real shared[4][32];
    int64_t first = (int64_t)blockIdx.x * s.g;
    gates += first * s.k, picks += first * s.k, choice += first * s.k, logits += first * s.E, P += first * s.E;
    struct tally a = {0, 0, 0, 0};
    for (int t = threadIdx.x; t < s.g; t += THREADS) {
        int64_t row = (int64_t)t * s.E;
        real lse = route_token(s, logits + row, gates + t * s.k, choice + t, P + row);
        a.squares += lse * lse;
    }
    __syncthreads();
    for (int e = threadIdx.x / 32; e < s.E; e += WARPS) {
        int count = give_places(s, picks, choice, e);
        a.balance += (real)count / (real)(s.g * s.k) * mean_of(s, P, e);
        a.most = (real)count > a.most ? (real)count : a.most;
        a.dropped += (real)(count > s.S ? count - s.S : 0);
    }
    a = add_up(a, shared);
    if (threadIdx.x == 0) write_sums(s, a, sums + (int64_t)blockIdx.x * MOE_SUMS);
}

__global__ static void __launch_bounds__(THREADS)
moe_route_total_one_block(real *total, const real *sums, int64_t groups) {
    __shared__ double shared[MOE_SUMS][32];
    for (int i = 0; i < MOE_SUMS; i++) {
        double sum = 0;
        for (int64_t group = threadIdx.x; group < groups; group += THREADS) sum += sums[group * MOE_SUMS + i];
        sum = block_sum_double(sum, shared[i]);
        if (threadIdx.x == 0) total[i] = (real)sum;
    }
}

/* ---- backward ---- */

__device__ static inline int count_choices(const struct sizes &s, const int32_t *picks, int e) {
    int count = 0;
    for (int first = 0; first < s.g * s.k; first += 32) {
        int i = first + (int)(threadIdx.x % 32);
        count += __popc(__ballot_sync(0xffffffffu, i < s.g * s.k && expert_of(picks[i], s.S) == e));
    }
    return count;
}

/* Add the gates' gradients to dP. gate_j = P_j / sum: dP_j += (dgate_j - sum_i dgate_i gate_i) / sum */
__device__ static inline void gates_backward(const struct sizes &s, const int32_t *picks, const elem *dgates,
                                             const real *P, real *dP) {
    real sum = 0, mean = 0;
    for (int j = 0; j < s.k; j++) sum += P[expert_of(picks[j], s.S)];
    real scale = s.divides ? s.scale / sum : s.scale;
    for (int j = 0; j < s.k && s.divides; j++) mean += load(dgates[j]) * P[expert_of(picks[j], s.S)] / sum;
    for (int j = 0; j < s.k; j++) dP[expert_of(picks[j], s.S)] += (load(dgates[j]) - mean) * scale;
}

/* dP of P = s / sum s becomes that of s. */
__device__ static inline void share_backward(const struct sizes &s, const real *P, real *dP) {
    real sum = 0, mean = 0;
    for (int e = 0; e < s.E; e++) sum += P[e];
    for (int e = 0; e < s.E; e++) mean += dP[e] * P[e] / sum;
    for (int e = 0; e < s.E; e++) dP[e] = (dP[e] - mean) / sum;
}

/* dlogits may overwrite logits, of which each element is read before it is written. */
__device__ static inline void token_backward(const struct sizes &s, elem *dlogits, const elem *logits,
                                             const elem *dgates, const int32_t *picks, const int32_t *count, real *P,
                                             real *dP, int accumulate) {
    real lse = scores(s, logits, P), dot = 0, per_choice = (real)s.E * s.N / (real)(s.g * s.k);
    real z = 2 * s.z * s.N * lse;
    for (int e = 0; e < s.E; e++) dP[e] = s.aux * per_choice * (real)count[e];
    if (s.sigmoid) share_backward(s, P, dP);
    gates_backward(s, picks, dgates, P, dP);
    for (int e = 0; e < s.E && !s.sigmoid; e++) dot += dP[e] * P[e];
    for (int e = 0; e < s.E; e++) {
        real soft = s.sigmoid && z != 0 ? exp(load(logits[e]) - lse) : P[e];
        put(dlogits + e, P[e] * (s.sigmoid ? dP[e] * (1 - P[e]) : dP[e] - dot) + soft * z, accumulate);
    }
}

/* P and dP (tokens, E) and count (groups, E) are scratch. */
__global__ static void __launch_bounds__(THREADS, 1)
moe_route_backward_block_per_group(elem *dlogits, const elem *logits, const elem *dgates, const int32_t *picks, real *P,
                                   real *dP, int32_t *count, struct sizes s, int accumulate) {
    int64_t first = (int64_t)blockIdx.x * s.g;
    picks += first * s.k, count += (int64_t)blockIdx.x * s.E;
    for (int e = threadIdx.x / 32; e < s.E; e += WARPS) {
        int n = count_choices(s, picks, e);
        if (threadIdx.x % 32 == 0) count[e] = n;
    }
    __syncthreads();
    for (int t = threadIdx.x; t < s.g; t += THREADS) {
        int64_t row = (first + t) * s.E;
        token_backward(s, dlogits + row, logits + row, dgates + (first + t) * s.k, picks + t * s.k, count, P + row,
                       dP + row, accumulate);
    }
}

/* A block takes an expert, and a warp groups. */
__global__ static void __launch_bounds__(THREADS)
moe_route_load_block_per_expert(void *dbias, int is_real, const int32_t *picks, struct sizes s) {
    __shared__ int64_t counts[WARPS];
    int64_t count = -s.groups * s.g * s.k;
    for (int64_t group = threadIdx.x / 32; group < s.groups; group += WARPS) {
        int n = count_choices(s, picks + group * s.g * s.k, (int)blockIdx.x);
        if (threadIdx.x % 32 == 0) counts[threadIdx.x / 32] = n + (group < WARPS ? 0 : counts[threadIdx.x / 32]);
    }
    __syncthreads();
    for (int w = 0; w < WARPS && w < s.groups && threadIdx.x == 0; w++) count += s.E * counts[w];
    if (threadIdx.x == 0) grad_add(dbias, is_real, blockIdx.x, (real)count);
}

/* ---- launchers ---- */

enum status CUDA(moe_route_forward)(const struct call *call) {
    struct sizes s = sizes_of(call);
    struct moe_route_scratch at = moe_route_scratch(call, ROW_FORWARD);
    char *work = (char *)call->work;
    real *sums = (real *)(work + at.second);
    TRY(LAUNCHED(moe_route_forward_block_per_group, (unsigned)s.groups, THREADS, 0, stream_of(call),
                 (elem *)call->out[0].data, (int32_t *)call->out[1].data, (const elem *)call->in[0].data, (real *)work,
                 sums, (int32_t *)(work + at.integers), s));
    return LAUNCHED(moe_route_total_one_block, 1, THREADS, 0, stream_of(call), (real *)call->out[2].data, sums,
                    s.groups);
}

enum status CUDA(moe_route_backward_input)(const struct call *call) {
    struct sizes s = sizes_of(call);
    struct moe_route_scratch at = moe_route_scratch(call, ROW_BACKWARD_INPUT);
    char *work = (char *)call->work;
    s.N *= (real)call->loss_scale;
    return LAUNCHED(moe_route_backward_block_per_group, (unsigned)s.groups, THREADS, 0, stream_of(call),
                    (elem *)call->din[0].data, (const elem *)call->in[0].data, (const elem *)call->dout[0].data,
                    (const int32_t *)call->out[1].data, (real *)work, (real *)(work + at.second),
                    (int32_t *)(work + at.integers), s, accumulates(call, 0));
}

enum status CUDA(moe_route_backward_weight)(const struct call *call) {
    struct sizes s = sizes_of(call);
    return LAUNCHED(moe_route_load_block_per_expert, (unsigned)s.E, THREADS, 0, stream_of(call), call->dweight[0].data,
                    is_real(&call->dweight[0]), (const int32_t *)call->out[1].data, s);
}
