/* Top-k, places and the load loss, one group after the other. lib/ops/moe/moe_route_cpu.c does the same with the
 * softmax in its working precision. */
#include "lessons/14-experts/places/places.h"

enum status places_per_expert(double capacity, int64_t group, int64_t k, int64_t experts, int64_t *places) {
    double share = ceil(capacity * (double)group * (double)k / (double)experts);
    *places = capacity > 0 && share < (double)group ? (int64_t)share : group;
    return OK;
}

enum status places_choose(const double *logits, int64_t experts, int64_t k, int32_t *choices) {
    bool taken[PLACES_MAX_EXPERTS] = {false};
    for (int64_t j = 0; j < k; j++) {
        int32_t best = -1;
        for (int32_t e = 0; e < experts; e++)
            if (!taken[e] && (best < 0 || logits[e] > logits[best])) best = e;
        choices[j] = best;
        taken[best] = true;
    }
    return OK;
}

static int64_t give_group(const struct places_rule *rule, const int32_t *choices, int32_t *places) {
    int64_t arrived[PLACES_MAX_EXPERTS] = {0}, dropped = 0;
    for (int64_t j = 0; j < rule->k; j++)
        for (int64_t t = 0; t < rule->group; t++) {
            int64_t place = arrived[choices[t * rule->k + j]]++;
            places[t * rule->k + j] = place < rule->places ? (int32_t)place : PLACES_DROPPED;
            dropped += place >= rule->places;
        }
    return dropped;
}

enum status places_give(const struct places_rule *rule, int64_t tokens, const int32_t *choices, int32_t *places,
                        int64_t *dropped) {
    *dropped = 0;
    for (int64_t t = 0; t < tokens; t += rule->group)
        *dropped += give_group(rule, choices + t * rule->k, places + t * rule->k);
    return OK;
}

static double loss_of_group(const struct places_rule *rule, const double *logits, const int32_t *choices) {
    double f[PLACES_MAX_EXPERTS] = {0}, p[PLACES_MAX_EXPERTS] = {0}, P[PLACES_MAX_EXPERTS], sum = 0;
    for (int64_t i = 0; i < rule->group * rule->k; i++) f[choices[i]] += 1.0 / (double)(rule->group * rule->k);
    for (int64_t t = 0; t < rule->group; t++) {
        places_softmax(logits + t * rule->experts, rule->experts, P);
        for (int64_t e = 0; e < rule->experts; e++) p[e] += P[e] / (double)rule->group;
    }
    for (int64_t e = 0; e < rule->experts; e++) sum += f[e] * p[e];
    return sum;
}

enum status places_load_loss(const struct places_rule *rule, int64_t tokens, int64_t all_tokens, const double *logits,
                             const int32_t *choices, double *loss) {
    double weight = (double)(rule->experts * rule->group) / (double)all_tokens;
    *loss = 0;
    for (int64_t t = 0; t < tokens; t += rule->group)
        *loss += weight * loss_of_group(rule, logits + t * rule->experts, choices + t * rule->k);
    return OK;
}
