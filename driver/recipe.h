/* What Trivium trains with: the model, and the fixed list of techniques in the order of rewriting. */
#ifndef TRIVIUM_DRIVER_RECIPE_H
#define TRIVIUM_DRIVER_RECIPE_H

#include "lib/run/run.h"

extern const struct recipe gpt_recipe;

#endif
