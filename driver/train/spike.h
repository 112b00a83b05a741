/* Is this step's loss a spike?
 *
 *   loss > mean + k s      mean and standard deviation s of the last 64 accepted losses; or the loss is not finite
 *
 * The first 16 losses are accepted without a comparison. While the loss falls fast, s is large, and few losses are
 * spikes. Every rank has the same losses, so all ranks decide alike.
 *
 * After a spike, train goes back to a checkpoint and skips the data that led to the spike: Chowdhery et al. 2022
 * (PaLM), section 5.1. */
#pragma once


enum { SPIKE_WINDOW = 64, SPIKE_FIRST = 16 };

struct spike {
    double loss[SPIKE_WINDOW];
    int n;                               /* accepted losses so far */
};

/** The limit of this step's loss: infinity before SPIKE_FIRST losses. @param k standard deviations, > 0 */
double spike_limit(const struct spike *, double k);
/** Add an accepted loss to the window. */
void spike_note(struct spike *, double loss);
