/* The experts of each token, and the choices that are dropped. places.h has each function's contract; the theory is in
 * lesson 14, "Groups and places" and "Two losses". */
#include "lessons/14-experts/places/places.h"

enum status places_per_expert(double capacity, int64_t group, int64_t k, int64_t experts, int64_t *places) {
    /* Round up or down? With a place too many a group of 8 tokens drops no token; with a place too few it does. */
    (void)capacity, (void)group, (void)k, (void)experts, (void)places;
    return FAIL(E_TODO, "places_per_expert is still to be written");
}

enum status places_choose(const double *logits, int64_t experts, int64_t k, int32_t *choices) {
    /* k times: the largest logit that is not taken yet. With which comparison does the lower number win a tie? */
    (void)logits, (void)experts, (void)k, (void)choices;
    return FAIL(E_TODO, "places_choose is still to be written");
}

enum status places_give(const struct places_rule *rule, int64_t tokens, const int32_t *choices, int32_t *places,
                        int64_t *dropped) {
    /* In each group: how many choices has each expert so far? There are three loops; which is the outer one? */
    (void)rule, (void)tokens, (void)choices, (void)places, (void)dropped;
    return FAIL(E_TODO, "places_give is still to be written");
}

enum status places_load_loss(const struct places_rule *rule, int64_t tokens, int64_t all_tokens, const double *logits,
                             const int32_t *choices, double *loss) {
    /* f and p belong to one group: a product of means over several groups differs. */
    (void)rule, (void)tokens, (void)all_tokens, (void)logits, (void)choices, (void)loss;
    return FAIL(E_TODO, "places_load_loss is still to be written");
}
