#include "driver/train/spike.h"

#include <math.h>

double spike_limit(const struct spike *s, double k) {
    int n = s->n < SPIKE_WINDOW ? s->n : SPIKE_WINDOW;
    double mean = 0, squares = 0;
    if (n < SPIKE_FIRST) return INFINITY;
    for (int i = 0; i < n; i++) mean += s->loss[i] / n;
    for (int i = 0; i < n; i++) squares += (s->loss[i] - mean) * (s->loss[i] - mean);
    return mean + k * sqrt(squares / (n - 1));
}

void spike_note(struct spike *s, double loss) { s->loss[s->n++ % SPIKE_WINDOW] = loss; }
