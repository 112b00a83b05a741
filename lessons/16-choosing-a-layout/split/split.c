/* Exercise: which stage of a pipeline gets how many layers (lesson 16, "Layers to stages").
 *
 *   stage i takes    fixed_s[i] + n_i layer_s     seconds of one microbatch, or of all: the unit does not matter
 *   wanted           n_i with sum n_i = layers, 1 <= n_i <= most[i], and the largest of these times as small as can be
 *
 *   fixed_s          seconds without the layers: of the embedding on the first stage, of the head on the last
 *   most             layers that the stage's memory has room for. Below 1: it has room for none
 *
 * A bound T can be kept if every stage takes as many layers as it may, under T and under most[i], and these are at
 * least `layers`. If T can be kept, so can every larger one: bisect. The least T that can be kept is the time of some
 * stage, so it is one of the at most n x layers numbers fixed_s[i] + k layer_s. Sort them, and bisect over these: the
 * answer is exact. (A bisection over seconds ends at some tolerance, and two splits within it look alike.)
 *
 * Then give out the layers under the least T: of several such splits the one with the most layers on the last stages,
 * since the first ones keep more microbatches.
 *
 * planner/split.h is the contract. lib/base/integer.h has min64. */
#include "planner/split.h"

/* TODO */
enum status split_layers(int n, int64_t layers, double layer_s, const double *fixed_s, const int64_t *most,
                         int64_t *layers_of) {
    (void)n, (void)layers, (void)layer_s, (void)fixed_s, (void)most, (void)layers_of;
    return FAIL(E_TODO, "split_layers is still to be written");
}
