/* Bytes of N parameters on a rank, without a model: `trivium show memory --params N`. */
#pragma once

#include "lib/run/plan.h"

/** Print the bytes of weights, gradients and optimizer states that one of dp replicas keeps of `params` parameters, by
 *  the formulas of zero/zero.h: no model, no activations, no padding. plan need not be settled.
 *  @errors E_CONFIG for options that are not in the formulas: tp, pp, offload  @collective{none} */
enum status show_params(const struct plan *, double params, bool json);

/** Write a page that draws these bytes for all four ZeRO stages. @errors as show_params; E_IO  @collective{none} */
enum status show_params_page(const struct plan *, double params, const char *dir, bool json);
