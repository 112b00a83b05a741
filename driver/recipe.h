/* What Trivium trains with: the model, and the fixed list of techniques in the order of rewriting. */
#ifndef TRIVIUM_DRIVER_RECIPE_H
#define TRIVIUM_DRIVER_RECIPE_H

#include "lib/run/run.h"

extern const struct recipe gpt_recipe;

/** The options of a plan: plan_options, and behind them those that techniques bring along (struct technique_options), each set of them in its
 *  own part of plan->own. The same table at every call; static storage.
 *  @errors E_INTERNAL: they need more room than the plan has; E_MEMORY  @collective{none} */
enum status recipe_options(struct option_table *out);
/** options_create with these, and with `more` (NULL: none) behind them. The target begins with a struct plan.
 *  @errors as above, and as options_create  @collective{none} */
enum status recipe_options_create(const struct option_table *more, void *target, struct options **out);
/** The table for a recipe, each technique given its part of plan->own; table->option is the caller's to free, also after an error.  @errors as above */
enum status recipe_options_join(const struct recipe *, struct option_table *table);

/* What it generates with: those techniques that a single sequence can use, and the rewrite that makes a decoder of the model. */
extern const struct recipe generate_recipe;
/* What a plan must be for it, before it is settled: one sequence, logits that can be looked at, and the cpu unless another is asked for. */
void generate_plan(struct plan *);

#endif
