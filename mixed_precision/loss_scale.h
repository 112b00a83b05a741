/* The loss scale: a number that moves by a rule, and nothing else. See loss_scale.c. */
#ifndef TRIVIUM_MIXED_PRECISION_LOSS_SCALE_H
#define TRIVIUM_MIXED_PRECISION_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

struct loss_scale {
    /* how it moves; constant in a run */
    double min;            /* never below */
    int64_t window;        /* clean steps before it doubles; 0: never */
    int64_t hysteresis;    /* overflows before it is halved */
    /* where it is: what a checkpoint has to keep */
    double scale;
    int64_t n_clean;       /* steps since the last overflow or doubling */
    int64_t credit;        /* overflows left before it is halved; once used up, it stays so until the next doubling */
    int64_t n_stuck;       /* overflows in a row at `min`, where no smaller scale can help */
};

/** A dynamic scale. 0 < min <= first, window > 0, hysteresis > 0. */
void loss_scale_init(struct loss_scale *, double first, double min, int64_t window, int64_t hysteresis);
/** One that never moves. hysteresis only says when it counts as stuck. */
void loss_scale_init_fixed(struct loss_scale *, double scale, int64_t hysteresis);

/** A step is over; overflow: some gradient was infinite or NaN. */
void loss_scale_update(struct loss_scale *, bool overflow);

/** This many overflows in a row at the lowest scale (LOSS_SCALE_PATIENCE x hysteresis) that the scale cannot be the
 *  reason. */
enum { LOSS_SCALE_PATIENCE = 2 };
bool loss_scale_is_stuck(const struct loss_scale *);

#endif
