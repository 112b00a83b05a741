/* Top-k of the softmax, places by the dropping rule, and the two losses. See moe_route.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/exp.h"
#include "lib/ops/moe/moe_route.h"

kernel CPU(moe_route_forward), CPU(moe_route_backward_input), CPU(moe_route_backward_weight);

/* S places, and N = loss_weight (backward: x loss_scale). divides: gates are divided by their sum. sets of `set`
 * experts each, and scale, the factor of gates. bias NULL: 0. */
struct sizes {
    int64_t E, k, g, groups, S;
    real N;
    bool divides, sigmoid;
    int64_t sets, set, sets_per_token;
    real scale;
    const real *bias;
};
static struct sizes sizes_of(const struct call *call) {
    const struct moe_rule *rule = &call->step->moe;
    int64_t E = call->in[0].type->shape.axis[2].n, tokens = type_n(call->in[0].type) / E;
    int64_t sets = rule->sets ? rule->sets : 1;
    return (struct sizes){E, rule->k, rule->group, tokens / rule->group, rule->places, (real)call->loss_weight,
                          rule->k > 1 && !rule->raw, rule->sigmoid, sets, E / sets, rule->sets_per_token,
                          rule->scale > 0 ? (real)rule->scale : 1,
                          call->step->n_weight ? call->weight[0].data : NULL};
}

/* P[e] of a token; returns lse. */
static real softmax(const elem *logits, real *P, int64_t E) {
    real max = load(logits[0]), sum = 0;
    for (int64_t e = 1; e < E; e++) max = load(logits[e]) > max ? load(logits[e]) : max;
    for (int64_t e = 0; e < E; e++) sum += P[e] = real_exp(load(logits[e]) - max);
    for (int64_t e = 0; e < E; e++) P[e] /= sum;
    return max + (real)log(sum);
}

static real sigmoid(real x) {
    real y = real_exp(x < 0 ? x : -x);                             /* at most 1 */
    return (x < 0 ? y : 1) / (1 + y);
}

/* The scores of a token, of which gates are parts; returns lse. */
static real scores(const struct sizes *s, const elem *logits, real *P) {
    real lse = softmax(logits, P, s->E);
    for (int64_t e = 0; e < s->E && s->sigmoid; e++) P[e] = sigmoid(load(logits[e]));
    return lse;
}

/* What expert e is chosen by. */
static real value(const struct sizes *s, const elem *logits, const real *P, int64_t e) {
    return s->sigmoid ? P[e] + (s->bias ? s->bias[e] : 0) : load(logits[e]);
}

static real value_of_set(const struct sizes *s, const elem *logits, const real *P, int64_t set) {
    real first = value(s, logits, P, set * s->set), second = -INFINITY;
    for (int64_t e = set * s->set + 1; e < (set + 1) * s->set; e++) {
        real x = value(s, logits, P, e);
        second = x > first ? first : x > second ? x : second;
        first = x > first ? x : first;
    }
    return s->sigmoid && s->set > 1 ? first + second : first;
}

/* The sets that a token's experts are in, as bits. */
static uint64_t choose_sets(const struct sizes *s, const elem *logits, const real *P) {
    uint64_t chosen = s->sets == 1;
    for (int64_t j = 0; j < s->sets_per_token && s->sets > 1; j++) {
        int64_t best = -1;
        real most = 0;
        for (int64_t set = 0; set < s->sets; set++) {
            real x = chosen >> set & 1 ? 0 : value_of_set(s, logits, P, set);
            if (!(chosen >> set & 1) && (best < 0 || x > most)) best = set, most = x;
        }
        chosen |= (uint64_t)1 << best;
    }
    return chosen;
}

/* The expert of the largest value, in one of the sets, that is not among the n choices before. */
static int32_t choose(const struct sizes *s, const elem *logits, const real *P, uint64_t sets, const int32_t *before,
                      int64_t n) {
    int32_t best = -1;
    for (int32_t e = 0; e < s->E; e++) {
        bool taken = !(sets >> (e / s->set) & 1);
        for (int64_t i = 0; i < n; i++) taken = taken || before[i] == e;
        if (!taken && (best < 0 || value(s, logits, P, e) > value(s, logits, P, best))) best = e;
    }
    return best;
}

static int64_t expert_of(int32_t pick, int64_t S) { return pick < 0 ? -1 - (int64_t)pick : pick / S; }

/* Replace experts by places in picks. count is exact, because a group has less than 2^24 tokens. @return choices that
 * were dropped */
static int64_t give_places(const struct sizes *s, int32_t *picks, real *count) {
    int64_t dropped = 0;
    for (int64_t e = 0; e < s->E; e++) count[e] = 0;
    for (int64_t j = 0; j < s->k; j++)
        for (int64_t t = 0; t < s->g; t++) {
            int32_t *pick = &picks[t * s->k + j], e = *pick;
            int64_t place = (int64_t)count[e]++;
            dropped += place >= s->S;
            *pick = place < s->S ? (int32_t)(e * s->S + place) : -1 - e;
        }
    return dropped;
}

/* ---- forward ---- */
/* Choose the experts and gates of one token; mean += P / g. Returns lse. */
static real route_token(const struct sizes *s, const elem *logits, elem *gates, int32_t *picks, real *P, real *mean) {
    real lse = scores(s, logits, P), sum = 0, all = s->sigmoid ? 0 : 1;
    uint64_t sets = choose_sets(s, logits, P);
    for (int64_t j = 0; j < s->k; j++) {
        picks[j] = choose(s, logits, P, sets, picks, j);
        sum += P[picks[j]];
    }
    for (int64_t j = 0; j < s->k; j++) gates[j] = store(s->scale * (s->divides ? P[picks[j]] / sum : P[picks[j]]));
    for (int64_t e = 0; e < s->E && s->sigmoid; e++) all += P[e];
    for (int64_t e = 0; e < s->E; e++) mean[e] += P[e] / all / (real)s->g;
    return lse;
}

static void route_group(const struct call *call, const struct sizes *s, int64_t group, real *work) {
    const elem *logits = (const elem *)call->in[0].data + group * s->g * s->E;
    elem *gates = (elem *)call->out[0].data + group * s->g * s->k;
    int32_t *picks = (int32_t *)call->out[1].data + group * s->g * s->k;
    real *P = work, *mean = P + s->E, *count = mean + s->E, *sums = count + s->E, squares = 0, balance = 0, most = 0;
    for (int64_t e = 0; e < s->E; e++) mean[e] = 0;
    for (int64_t t = 0; t < s->g; t++) {
        real lse = route_token(s, logits + t * s->E, gates + t * s->k, picks + t * s->k, P, mean);
        squares += lse * lse;
    }
    int64_t dropped = give_places(s, picks, count);
    for (int64_t e = 0; e < s->E; e++) {
        balance += count[e] / (real)(s->g * s->k) * mean[e];
        most = count[e] > most ? count[e] : most;
    }
    real share = (real)s->g * s->N;                                 /* the group's share of the global batch's tokens */
    sums[0] = (real)call->step->moe.aux * (real)s->E * share * balance + (real)call->step->moe.z * s->N * squares;
    sums[1] = share * most * (real)s->E / (real)(s->g * s->k);
    sums[2] = s->N * (real)dropped / (real)s->k;
}

enum status CPU(moe_route_forward)(const struct call *call) {
    struct sizes s = sizes_of(call);
    real *work = call->work, *sums = call->out[2].data;
    int64_t stride = 3 * s.E + MOE_SUMS;
#pragma omp parallel for
    for (int64_t group = 0; group < s.groups; group++) route_group(call, &s, group, work + group * stride);
    for (int i = 0; i < MOE_SUMS; i++) {
        double sum = 0;
        for (int64_t group = 0; group < s.groups; group++) sum += work[group * stride + 3 * s.E + i];
        sums[i] = (real)sum;
    }
    return OK;
}

/* ---- backward ---- */
/* Add the gates' gradients to dP. gate_j = P_j / sum: dP_j += (dgate_j - sum_i dgate_i gate_i) / sum; and the scale */
static void gates_backward(const struct sizes *s, const int32_t *picks, const elem *dgates, const real *P, real *dP) {
    real sum = 0, mean = 0;
    for (int64_t j = 0; j < s->k; j++) sum += P[expert_of(picks[j], s->S)];
    for (int64_t j = 0; j < s->k; j++) mean += load(dgates[j]) * P[expert_of(picks[j], s->S)] / sum;
    for (int64_t j = 0; j < s->k; j++)
        dP[expert_of(picks[j], s->S)] += s->scale * (s->divides ? (load(dgates[j]) - mean) / sum : load(dgates[j]));
}

/* dP of P = s / sum s becomes that of s. */
static void share_backward(const struct sizes *s, const real *P, real *dP) {
    real sum = 0, mean = 0;
    for (int64_t e = 0; e < s->E; e++) sum += P[e];
    for (int64_t e = 0; e < s->E; e++) mean += dP[e] * P[e] / sum;
    for (int64_t e = 0; e < s->E; e++) dP[e] = (dP[e] - mean) / sum;
}

/* The gradient of the scores becomes that of the logits. z: 2 z N lse. dlogits may overwrite logits. */
static void scores_backward(const struct sizes *s, const elem *logits, const real *P, const real *dP, real z, real lse,
                            elem *dlogits, int add) {
    real dot = 0;
    for (int64_t e = 0; e < s->E && !s->sigmoid; e++) dot += dP[e] * P[e];
    for (int64_t e = 0; e < s->E; e++) {
        real soft = s->sigmoid && z != 0 ? real_exp(load(logits[e]) - lse) : P[e];
        put(dlogits + e, P[e] * (s->sigmoid ? dP[e] * (1 - P[e]) : dP[e] - dot) + soft * z, add);
    }
}

static void group_backward(const struct call *call, const struct sizes *s, int64_t group, real *work) {
    const struct moe_rule *rule = &call->step->moe;
    const int32_t *picks = (const int32_t *)call->out[1].data + group * s->g * s->k;
    const elem *logits = (const elem *)call->in[0].data + group * s->g * s->E;
    const elem *dgates = (const elem *)call->dout[0].data + group * s->g * s->k;
    elem *dlogits = (elem *)call->din[0].data + group * s->g * s->E;
    real *P = work, *count = P + s->E, *dP = count + s->E, per_choice = (real)s->E * s->N / (real)(s->g * s->k);
    int add = accumulates(call, 0);
    for (int64_t e = 0; e < s->E; e++) count[e] = 0;
    for (int64_t i = 0; i < s->g * s->k; i++) count[expert_of(picks[i], s->S)]++;
    for (int64_t t = 0; t < s->g; t++, logits += s->E, dlogits += s->E, dgates += s->k, picks += s->k) {
        real lse = scores(s, logits, P);
        for (int64_t e = 0; e < s->E; e++) dP[e] = (real)rule->aux * per_choice * count[e];
        if (s->sigmoid) share_backward(s, P, dP);
        gates_backward(s, picks, dgates, P, dP);
        scores_backward(s, logits, P, dP, 2 * (real)rule->z * s->N * lse, lse, dlogits, add);
    }
}

enum status CPU(moe_route_backward_input)(const struct call *call) {
    struct sizes s = sizes_of(call);
    real *work = call->work;
    s.N *= (real)call->loss_scale;
#pragma omp parallel for
    for (int64_t group = 0; group < s.groups; group++) group_backward(call, &s, group, work + group * 3 * s.E);
    return OK;
}

/* Counts are whole numbers, so their order does not matter. */
enum status CPU(moe_route_backward_weight)(const struct call *call) {
    struct sizes s = sizes_of(call);
    const int32_t *picks = call->out[1].data;
    int64_t *count = call->work, choices = s.groups * s.g * s.k;
    for (int64_t e = 0; e < s.E; e++) count[e] = 0;
    for (int64_t i = 0; i < choices; i++) count[expert_of(picks[i], s.S)]++;
    for (int64_t e = 0; e < s.E; e++) {
        real excess = (real)(s.E * count[e] - choices);
        grad_add(&call->dweight[0], e, &excess, 1);
    }
    return OK;
}
