/* How a run of a recommendation model reads samples of clicks, and computes the AUC of an evaluation. */
#pragma once

#include "lib/run/model.h"

extern const struct own_samples dlrm_clicks;
