/* The dynamic loss scale, for you to write; mixed_precision/loss_scale.h says what each function does, lesson 08 why
 * ("Dynamic scaling").
 *
 *   overflow                                 credit - 1; when none is left: scale = max(scale / 2, min)
 *   `window` steps without overflow          scale = 2 scale; credit = hysteresis
 *
 * Work one case out on paper first: scale 16, min 2, window 3, hysteresis 2; the steps are overflow, clean, overflow,
 * overflow, clean, clean, clean. What is the scale after each? (16 16 8 4 4 4 8)
 *
 *   make grade LESSON=08 FILE=lessons/08-mixed-precision/loss_scale/loss_scale.c */
#include "mixed_precision/loss_scale.h"

#include <math.h>

/* The scale is `first`, nothing has happened yet, and all credit is there. */
void loss_scale_init(struct loss_scale *s, double first, double min, int64_t window, int64_t hysteresis) {
    (void)first, (void)min, (void)window, (void)hysteresis;
    *s = (struct loss_scale){0};   /* E_TODO */
}

/* One that never moves is one that is at its minimum, and never doubles: window 0. */
void loss_scale_init_fixed(struct loss_scale *s, double scale, int64_t hysteresis) {
    (void)scale, (void)hysteresis;
    *s = (struct loss_scale){0};   /* E_TODO */
}

/* A step is over. Count what has to be counted (n_clean, credit, n_stuck), and move the scale when it is time. n_stuck
 * counts overflows in a row at the lowest scale, where halving changes nothing. */
void loss_scale_update(struct loss_scale *s, bool overflow) {
    (void)s, (void)overflow;       /* E_TODO */
}

bool loss_scale_is_stuck(const struct loss_scale *s) {
    (void)s;
    return true;                   /* E_TODO */
}
