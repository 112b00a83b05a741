/* Exercise: the number of layers on each stage of a pipeline (lesson 16, "Layers to stages").
 *
 *   stage i takes    fixed_s[i] + n_i layer_s     seconds, for one microbatch or for all
 *   find             n_i with sum n_i = layers, 1 <= n_i <= most[i], and the smallest maximum of these times
 *
 *   fixed_s          seconds without layers: of the embedding on the first stage, of the head on the last
 *   most             layers that fit into the stage's memory; below 1: none fits
 *
 * A bound T is possible if the stages together hold at least `layers` layers, when each takes as many as T and most[i]
 * allow. If T is possible, every larger bound is possible, so bisect. The least possible T is the time of some stage,
 * so it is one of the at most n x layers numbers fixed_s[i] + k layer_s. Sort these and bisect over them; the result is
 * then exact. (A bisection over seconds ends at a tolerance, within which two splits look equal.)
 *
 * Then distribute the layers under the least T. Of several such splits choose the one with the most layers on the last
 * stages, because the first stages keep more microbatches.
 *
 * planner/split.h is the contract. lib/base/integer.h has min64. */
#include "planner/split.h"

/* TODO */
enum status split_layers(int n, int64_t layers, double layer_s, const double *fixed_s, const int64_t *most,
                         int64_t *layers_of) {
    (void)n, (void)layers, (void)layer_s, (void)fixed_s, (void)most, (void)layers_of;
    return FAIL(E_TODO, "split_layers is still to be written");
}
