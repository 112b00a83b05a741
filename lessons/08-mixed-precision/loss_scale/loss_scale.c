/* The dynamic loss scale, for you to write. mixed_precision/loss_scale.h has each function's contract; lesson 08
 * ("Dynamic scaling") explains it.
 *
 *   overflow                                 credit - 1; if no credit is left: scale = max(scale / 2, min)
 *   `window` steps without overflow          scale = 2 scale; credit = hysteresis
 *
 * First compute one case on paper: scale 16, min 2, window 3, hysteresis 2; the steps are overflow, clean, overflow,
 * overflow, clean, clean, clean. What is the scale after each step? (16 16 8 4 4 4 8)
 *
 *   make grade LESSON=08 FILE=lessons/08-mixed-precision/loss_scale/loss_scale.c */
#include "mixed_precision/loss_scale.h"

#include <math.h>

/* The scale is `first`, all counts are 0, and the credit is full. */
void loss_scale_init(struct loss_scale *s, double first, double min, int64_t window, int64_t hysteresis) {
    (void)first, (void)min, (void)window, (void)hysteresis;
    *s = (struct loss_scale){0};   /* E_TODO */
}

/* A fixed scale equals its minimum, so that it is never halved, and has window 0, so that it is never doubled. */
void loss_scale_init_fixed(struct loss_scale *s, double scale, int64_t hysteresis) {
    (void)scale, (void)hysteresis;
    *s = (struct loss_scale){0};   /* E_TODO */
}

/* At the end of a step, update n_clean, credit and n_stuck, and change the scale if due. n_stuck counts consecutive
 * overflows at the lowest scale, which halving does not change. */
void loss_scale_update(struct loss_scale *s, bool overflow) {
    (void)s, (void)overflow;       /* E_TODO */
}

bool loss_scale_is_stuck(const struct loss_scale *s) {
    (void)s;
    return true;                   /* E_TODO */
}
