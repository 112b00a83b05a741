/* Is this step's loss a spike?
 *
 *   loss > mean + k s      mean and standard deviation s of the last 64 losses that were none; or it is not finite
 *
 * The first 16 losses are accepted, with nothing to compare them to. While the loss falls fast, s is large, and few
 * losses are spikes. Every rank has the same losses, so all decide alike.
 *
 * What to do then: Chowdhery et al. 2022 (PaLM), section 5.1: go back to a checkpoint and leave out the data that led
 * there. */
#pragma once

#include <stdbool.h>

enum { SPIKE_WINDOW = 64, SPIKE_FIRST = 16 };

struct spike {
    double loss[SPIKE_WINDOW];
    int n;                               /* losses noted so far */
};

/** The most that this step's loss may be: infinity as long as there are too few. @param k standard deviations, > 0 */
double spike_limit(const struct spike *, double k);
/** A loss that was accepted. */
void spike_note(struct spike *, double loss);
