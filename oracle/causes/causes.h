/* Signatures that need other tensors than the wrong one: of the run, of the reference, and of the steps before. See
 * causes.c. */
#pragma once

#include "oracle/suspect.h"

signature suspect_group, suspect_stale_weights, suspect_mean_of_means;

/** Targets that the run does not ignore, over all of them; 1: it does not say. */
double suspect_share_of_targets(const struct evidence *);
