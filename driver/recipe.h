/* What Trivium trains with: the model, and the fixed list of techniques in the order of rewriting. */
#ifndef TRIVIUM_DRIVER_RECIPE_H
#define TRIVIUM_DRIVER_RECIPE_H

#include "lib/run/run.h"

extern const struct recipe gpt_recipe;

/* What it generates with: those techniques that a single sequence can use, and the rewrite that makes a decoder of the model. */
extern const struct recipe generate_recipe;
/* What a plan must be for it, before it is settled: one sequence, logits that can be looked at, and the cpu unless another is asked for. */
void generate_plan(struct plan *);

#endif
