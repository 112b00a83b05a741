/* The loss scale: a number and the rule that adjusts it. See loss_scale.c. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct loss_scale {
    /* the rule; constant in a run */
    double min;            /* the smallest scale */
    int64_t window;        /* clean steps before the scale doubles; 0: never */
    int64_t hysteresis;    /* overflows before the scale is halved */
    /* the state; saved in checkpoints */
    double scale;
    int64_t n_clean;       /* steps since the last overflow or doubling */
    int64_t credit;        /* overflows left before the scale is halved; 0 stays 0 until the next doubling */
    int64_t n_stuck;       /* overflows in a row at `min`, where no smaller scale can help */
};

/** A dynamic scale. 0 < min <= first, window > 0, hysteresis > 0. */
void loss_scale_init(struct loss_scale *, double first, double min, int64_t window, int64_t hysteresis);
/** A fixed scale. hysteresis only determines when the scale is stuck. */
void loss_scale_init_fixed(struct loss_scale *, double scale, int64_t hysteresis);

/** Adjust the scale after a step. overflow: some gradient of the step was infinite or NaN. */
void loss_scale_update(struct loss_scale *, bool overflow);

/** Stuck: LOSS_SCALE_PATIENCE x hysteresis overflows in a row at the lowest scale. Then the scale is not the cause. */
enum { LOSS_SCALE_PATIENCE = 2 };
bool loss_scale_is_stuck(const struct loss_scale *);
