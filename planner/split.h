/* Split the layers among the stages of a pipeline so that the slowest stage is as fast as possible.
 *
 *   stage i takes fixed_i + n_i t seconds, sum n_i = layers, 1 <= n_i <= most_i            minimize the largest
 *
 * fixed_i: the embedding on the first stage, the head on the last; t: a layer; most_i: layers that fit its memory.
 *
 * A bound T is possible if the stages together take all layers, each at most most_i and within T. The least possible T
 * is one of the numbers fixed_i + k t, so a search among these numbers, sorted, is exact: no tolerance. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/** @param fixed_s [n]  @param most [n]; < 1: the stage cannot hold a layer  @param layers_of [n], out. Among equal
 *  splits take the one with most layers on the last stages, because the first stages keep more microbatches.
 *  @errors E_CONFIG: the stages cannot hold the layers ("4 stages cannot hold layers=30; ..."); E_MEMORY
 *  @collective{none} */
enum status split_layers(int n, int64_t layers, double layer_s, const double *fixed_s, const int64_t *most,
                         int64_t *layers_of);
