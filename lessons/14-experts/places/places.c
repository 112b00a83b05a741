/* Which experts a token goes to, and which tokens find no place there. What each function promises is in places.h;
 * the theory is in lesson 14, "Groups and places" and "Two losses". */
#include "lessons/14-experts/places/places.h"

enum status places_per_expert(double capacity, int64_t group, int64_t k, int64_t experts, int64_t *places) {
    /* Up or down? A group of 8 tokens with a place too many drops nothing, with one too few it does. */
    (void)capacity, (void)group, (void)k, (void)experts, (void)places;
    return FAIL(E_TODO, "places_per_expert is still to be written");
}

enum status places_choose(const double *logits, int64_t experts, int64_t k, int32_t *choices) {
    /* k times: the largest logit that was not taken before. Which comparison leaves a tie to the lower number? */
    (void)logits, (void)experts, (void)k, (void)choices;
    return FAIL(E_TODO, "places_choose is still to be written");
}

enum status places_give(const struct places_rule *rule, int64_t tokens, const int32_t *choices, int32_t *places,
                        int64_t *dropped) {
    /* Each group by itself: how many have arrived at each expert? Three loops; which is the outer one? */
    (void)rule, (void)tokens, (void)choices, (void)places, (void)dropped;
    return FAIL(E_TODO, "places_give is still to be written");
}

enum status places_load_loss(const struct places_rule *rule, int64_t tokens, int64_t all_tokens, const double *logits,
                             const int32_t *choices, double *loss) {
    /* f and p are of one group: a product of means over several groups is another number. */
    (void)rule, (void)tokens, (void)all_tokens, (void)logits, (void)choices, (void)loss;
    return FAIL(E_TODO, "places_load_loss is still to be written");
}
