/* Split the layers among the stages of a pipeline so that the slowest stage is as fast as possible.
 *
 *   stage i takes fixed_i + n_i t seconds, sum n_i = layers, 1 <= n_i <= most_i            minimize the largest
 *
 * fixed_i: the embedding of the first, the head of the last; t: a layer; most_i: what its memory holds.
 *
 * A bound T can be kept if every stage takes as many layers as it may under T and most_i, and all layers are taken. The
 * least such T is one of the numbers fixed_i + k t, so a search among those, sorted, is exact: no tolerance. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/** @param fixed_s [n]  @param most [n]; < 1: the stage cannot hold a layer  @param layers_of [n], out. Among equal
 *  splits the one with the most layers on the last stages: the first stages keep more microbatches.
 *  @errors E_CONFIG: the stages cannot hold the layers; E_MEMORY  @collective{none} */
enum status split_layers(int n, int64_t layers, double layer_s, const double *fixed_s, const int64_t *most,
                         int64_t *layers_of);
