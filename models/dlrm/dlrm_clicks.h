/* Samples of clicks in a run of a recommendation model: which of them a rank reads, and the AUC of an evaluation. */
#pragma once

#include "lib/run/model.h"

extern const struct own_samples dlrm_clicks;
