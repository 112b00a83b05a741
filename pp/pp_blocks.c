/* Controllable memory: V-Half and V-Min. p = 4, m = 8, F = Bi = W = 1 of a rank; small letters: the way back.
 *
 * The number of microbatches that a rank keeps is the life time of their activations, from F to W, divided by the time
 * between two microbatches. So this file designs the life of one microbatch, the building block, and repeats it every 6
 * units (F, B, W of two chunks). On the vee long and short lives balance, so that every rank keeps the same.
 *
 *   rank i does F0 at a i, F1 at t1 + b (p-1-i), B1 at t2 + c i, B0 at t3 + d (p-1-i), and W in the units left over
 *
 * No two operations may be on the same unit modulo 6. If a + d = b + c, the life times add up to (a+b+c+d) p on every
 * rank, which keeps a sixth of that. All t1, t2, t3 are tried: the least peak wins, then the earliest end.
 *
 * V-Half: a, b, c, d = 1, 2, 1, 2. Invented to train with half of 1F1B's activations, at little more than half of its
 * bubble. Peak at most p + 2 chunks (1F1B's first stage: 2p); bubble: no closed form; 1 copy of the weights.
 * 0  FF.....fFbwfFbw.fFBWbwfFBWbwfFBWbwfFBWbwf.BWbwf.BWbw.BW..BW
 * 1  .FF...f..FfbwF.fbBwFWfbBwFWfbBwFWfbBwFWfbBwW.fbBwW.bBwW.BW.
 * 2  ..F..fF..fF.bwfFBWbwfFBWbwfFBWbwfFBWbwfFBWbwfBWbw.BWbw.BW..
 * 3  ...Ff..Ff..FfbBwFWfbBwFWfbBwFWfbBwFWfbBwFWfbBwW.bBwW.bBwW..
 *
 * V-Min: 1, 1, 1, 1, so no message waits. Invented to keep a third of 1F1B's activations. Peak at most 2p/3 + 2 chunks,
 * rounded up; bubble: no closed form; 1 copy.
 * 0  FF.....fbwF..fbBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwW.fbBwW...BW
 * 1  .F....fF.bw.fFBbwWfFBbwWfFBbwWfFBbwWfFBbwWfFBbwWf.BbwW..BW.
 * 2  ..F..f..F.bfwBFWbfwBFWbfwBFWbfwBFWbfwBFWbfwBFWbfwBW.bw.BW..
 * 3  ...Ff....FfbBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwWFfbBwW..bBwW..
 *
 * Source: Qi et al. 2024, "Pipeline parallelism with controllable memory", sections 3 and 4. */
#include "pp/pp_orders.h"

#include "lib/base/integer.h"

enum { PERIOD = 6, BEFORE = PERIOD << 20 };   /* BEFORE: a multiple of PERIOD that keeps operands of % positive */
enum { F0, F1, B1, B0, W1, W0, N_OPS };
static const struct { enum action_kind kind; int chunk; } OPS[N_OPS] = {
    [F0] = {ACTION_F, 0}, [F1] = {ACTION_F, 1}, [B1] = {ACTION_B, 1},
    [B0] = {ACTION_B, 0}, [W1] = {ACTION_W, 1}, [W0] = {ACTION_W, 0}};

/* The unit at which a rank runs each operation of the first microbatch. */
struct life { int at[N_OPS]; };

/* The first unit after `at` that is `residue` modulo the period. */
static int next_unit(int at, int residue) { return at + 1 + (residue - at - 1 + BEFORE) % PERIOD; }

/* The microbatches alive at a unit, if one lives from `from` to `to` and the next one a period later. */
static int alive(int unit, int from, int to) {
    return (int)(ceil_div(to + 1 - unit + BEFORE, PERIOD) - ceil_div(from + 1 - unit + BEFORE, PERIOD));
}

/* The most chunks in flight. The peak is at the begin of one of the two forwards. */
static int peak_of(const struct life *l) {
    int peak = 0;
    for (int op = F0; op <= F1; op++)
        peak = (int)max64(peak, alive(l->at[op], l->at[F0], l->at[W0]) + alive(l->at[op], l->at[F1], l->at[W1]));
    return peak;
}

static bool better(const struct life *l, const struct life *than) {
    int peak = peak_of(l), other = peak_of(than);
    return peak < other || (peak == other && l->at[W1] + l->at[W0] < than->at[W1] + than->at[W0]);
}

/* Put W1 and W0 into the two free units. false: two other operations fall on one unit. */
static bool place_weights(struct life *l) {
    int free[PERIOD], n = 0;
    for (int unit = 0; unit < PERIOD; unit++) {
        bool taken = false;
        for (int op = F0; op <= B0; op++) taken |= l->at[op] % PERIOD == unit;
        if (!taken) free[n++] = unit;
    }
    if (n != 2) return false;
    struct life other = *l;
    l->at[W1] = next_unit(l->at[B1], free[0]), l->at[W0] = next_unit(l->at[B0], free[1]);
    other.at[W1] = next_unit(l->at[B1], free[1]), other.at[W0] = next_unit(l->at[B0], free[0]);
    if (better(&other, l)) *l = other;
    return true;
}

struct pattern { int a, b, c, d, t1, t2, t3; };
static bool life_of(const struct pattern *k, int p, int i, struct life *l) {
    *l = (struct life){{k->a * i, k->t1 + k->b * (p - 1 - i), k->t2 + k->c * i, k->t3 + k->d * (p - 1 - i)}};
    return place_weights(l);
}

/* The largest peak of all ranks; -1: two operations fall on one unit. */
static int peak_of_pattern(const struct pattern *k, int p) {
    int peak = 0;
    for (int i = 0; i < p; i++) {
        struct life l;
        if (!life_of(k, p, i, &l)) return -1;
        peak = (int)max64(peak, peak_of(&l));
    }
    return peak;
}

static struct pattern best_pattern(struct pattern k, int p) {
    struct pattern best = {0};
    int least = -1;
    for (int s = 0; s < PERIOD * PERIOD * PERIOD; s++) {
        k.t1 = k.a * (p - 1) + 1 + s % PERIOD;
        k.t2 = k.t1 + k.b * (p - 1) + 1 + s / PERIOD % PERIOD;
        k.t3 = k.t2 + k.c * (p - 1) + 1 + s / PERIOD / PERIOD;
        int peak = peak_of_pattern(&k, p);
        if (peak < 0 || (least >= 0 && (peak > least || (peak == least && k.t3 >= best.t3)))) continue;
        best = k, least = peak;
    }
    return best;
}

static void repeat(const struct life *l, struct schedule *out) {
    for (int unit = 0, left = N_OPS * out->n_microbatches; left > 0; unit++)
        for (int op = 0; op < N_OPS; op++) {
            int since = unit - l->at[op];
            if (since < 0 || since % PERIOD || since / PERIOD >= out->n_microbatches) continue;
            pp_add(out, action_of(OPS[op].kind, OPS[op].chunk, since / PERIOD));
            left--;
        }
}

static void order(const struct pp_shape *x, struct pattern k, struct schedule *stages) {
    k = best_pattern(k, x->n_stages);
    for (int i = 0; i < x->n_stages; i++) {
        struct life l;
        life_of(&k, x->n_stages, i, &l);
        repeat(&l, &stages[i]);
    }
}
static void half_order(const struct pp_shape *x, struct schedule *stages) {
    order(x, (struct pattern){.a = 1, .b = 2, .c = 1, .d = 2}, stages);
}
static void min_order(const struct pp_shape *x, struct schedule *stages) {
    order(x, (struct pattern){.a = 1, .b = 1, .c = 1, .d = 1}, stages);
}
const struct pp_schedule pp_v_half = {.name = "v-half", .place = &pp_vee, .split_weight = true, .order_all = half_order,
                                      .depth = pp_simulated_depth};
const struct pp_schedule pp_v_min = {.name = "v-min", .place = &pp_vee, .split_weight = true, .order_all = min_order,
                                     .depth = pp_simulated_depth};
