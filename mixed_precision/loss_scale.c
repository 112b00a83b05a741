/* The dynamic loss scale.
 *
 * Idea: the best scale is the largest that does not overflow. It is not known in advance, and it changes as gradients
 * shrink in training. So try: an overflow is harmless (the step is skipped), and shows that the scale is too large.
 *
 *   overflow                                 credit - 1; if no credit is left: scale = max(scale / 2, min)
 *   `window` steps without overflow          scale = 2 scale; credit = hysteresis
 *
 * The credit (hysteresis) forgives a single bad batch: halving at once would cost `window` steps to double again.
 * Overflows need not be adjacent to use up the credit. At the start, on the way down from 2^32, the credit is used up
 * once; then each overflow halves the scale.
 *
 * Powers of two change the exponent only: scaling and unscaling lose no digit.
 *
 * What breaks: at the lowest scale an overflow changes nothing, so a run could skip forever without any error.
 * `n_stuck` counts these overflows. A fixed scale is at its lowest from the start.
 *
 * Source: Micikevicius et al. 2018, section 3.2; Megatron-LM, megatron/core/optimizer/grad_scaler.py (the same rule,
 * which skips forever; DeepSpeed stops at the first overflow at the minimum). */
#include "mixed_precision/loss_scale.h"

#include <math.h>

void loss_scale_init(struct loss_scale *s, double first, double min, int64_t window, int64_t hysteresis) {
    *s = (struct loss_scale){.min = min, .window = window, .hysteresis = hysteresis, .scale = first,
                             .credit = hysteresis};
}

void loss_scale_init_fixed(struct loss_scale *s, double scale, int64_t hysteresis) {
    loss_scale_init(s, scale, scale, 0, hysteresis);
}

static void after_overflow(struct loss_scale *s) {
    s->n_clean = 0;
    s->n_stuck = s->scale > s->min ? 0 : s->n_stuck + 1;
    if (s->credit > 0) s->credit--;
    if (s->credit == 0) s->scale = fmax(s->scale / 2, s->min);
}

static void after_clean_step(struct loss_scale *s) {
    s->n_stuck = 0;
    s->n_clean++;
    if (s->window == 0 || s->n_clean < s->window) return; /* n_clean > window: resumed with a smaller window */
    s->n_clean = 0;
    s->credit = s->hysteresis;
    s->scale *= 2;
}

void loss_scale_update(struct loss_scale *s, bool overflow) {
    if (overflow) after_overflow(s);
    else after_clean_step(s);
}

bool loss_scale_is_stuck(const struct loss_scale *s) { return s->n_stuck >= LOSS_SCALE_PATIENCE * s->hysteresis; }
