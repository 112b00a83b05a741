/* What Trivium trains: the models, and the fixed list of techniques in the order of rewriting. */
#ifndef TRIVIUM_DRIVER_RECIPE_H
#define TRIVIUM_DRIVER_RECIPE_H

#include "lib/run/run.h"

extern const struct recipe train_recipe;

/** The options of a plan, those of train_recipe's techniques and models among them (recipe_options_join). The same
 *  table at every call; static storage.
 *  @errors E_INTERNAL: they need more room than the plan has; E_MEMORY  @collective{none} */
enum status recipe_options(struct option_table *out);
/** options_create with these, and with `more` (NULL: none) after them. The target begins with a struct plan: it is
 *  cleared, whatever it holds, and its recipe and arch are set.
 *  @errors as above, and as options_create  @collective{none} */
enum status recipe_options_create(const struct option_table *more, void *target, struct options **out);
/** A plan of defaults. @errors as above */
enum status recipe_plan(struct plan *);

/* What it generates with: those techniques that a single sequence can use, and the rewrite that makes a decoder of the
 * model. */
extern const struct recipe generate_recipe;
/* Set what generation needs in a plan, before it is settled: the number of sequences, logits that can be looked at, and
 * the cpu unless another is asked for. */
void generate_plan(struct plan *, int64_t sequences);

#endif
