/* The one place that knows all techniques. To add one: include it, and put it in the list. The order is that of rewriting:
 * tp changes what a layer is, pp picks this rank's layers, the rest mark what is left. */
#include "driver/recipe.h"

#include "dp/dp.h"
#include "gpt/gpt.h"
#include "pp/pp.h"
#include "tp/tp.h"

static const struct technique *const TECHNIQUES[] = {&technique_tp, &technique_pp, &technique_dp};

const struct recipe gpt_recipe = {gpt_build, TECHNIQUES, sizeof TECHNIQUES / sizeof *TECHNIQUES};
