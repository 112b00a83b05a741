#include "planner/why.h"

#include "planner/explain.h"

const char *part_name(enum part p) {
    static const char *const NAMES[N_PARTS] = {"products", "memory-bound rows", "replays",
                                               "exchanges in layers (tp, cp, ep)", "bubble", "messages of pp",
                                               "dp and gathers", "update"};
    return (unsigned)p < N_PARTS ? NAMES[p] : "?";
}

const char *why_name(enum why w) {
    static const char *const NAMES[N_WHYS] = {"tied with the fastest", "does not fit", "loses by its own rows",
                                              "replays", "exchanges in layers (tp, cp, ep)",
                                              "the pipeline (bubble and messages)", "dp, gathers and update"};
    return (unsigned)w < N_WHYS ? NAMES[w] : "?";
}

static enum part part_of(enum price_phase phase) {
    static const enum part PARTS[N_PRICE_PHASES] = {
        [PRICE_PRODUCTS] = PART_PRODUCTS, [PRICE_MEMORY] = PART_MEMORY,   [PRICE_REPLAY] = PART_REPLAY,
        [PRICE_CASTS] = PART_MEMORY,
        [PRICE_TP] = PART_LAYERS,         [PRICE_CP] = PART_LAYERS,       [PRICE_EP] = PART_LAYERS,
        [PRICE_BUBBLE] = PART_BUBBLE,     [PRICE_PP] = PART_PP,           [PRICE_DP] = PART_REPLICAS,
        [PRICE_GATHER] = PART_REPLICAS,   [PRICE_OPTIM] = PART_UPDATE, [PRICE_OFFLOAD] = PART_UPDATE};
    return PARTS[phase];
}

void part_seconds(const double phase_s[N_PRICE_PHASES], double step_s, double out[N_PARTS]) {
    double left = step_s;
    for (int i = 0; i < N_PARTS; i++) out[i] = 0;
    for (int i = 0; i < N_PRICE_PHASES; i++) {
        out[part_of((enum price_phase)i)] += phase_s[i];
        left -= phase_s[i];
    }
    out[PART_BUBBLE] += left;
}

static enum why why_of_part(enum part p) {
    static const enum why WHYS[N_PARTS] = {WHY_COMPUTE,  WHY_COMPUTE,  WHY_REPLAY,   WHY_LAYERS,
                                           WHY_PIPELINE, WHY_PIPELINE, WHY_REPLICAS, WHY_REPLICAS};
    return WHYS[p];
}

enum why why_of(const double x[N_PARTS], bool fits, const double best[N_PARTS]) {
    double more[N_WHYS] = {0}, step_s = 0, best_s = 0;
    enum why most = WHY_COMPUTE;
    for (int i = 0; i < N_PARTS; i++) {
        more[why_of_part((enum part)i)] += x[i] - best[i];
        step_s += x[i], best_s += best[i];
    }
    if (!fits) return WHY_NO_FIT;
    if (step_s <= (1 + MODEL_ERROR) * best_s) return WHY_TIED;
    for (enum why w = WHY_COMPUTE; w < N_WHYS; w++)
        if (more[w] > more[most]) most = w;
    return most;
}
