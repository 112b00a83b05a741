/* What a program can train: its models, and its techniques in the order of rewriting. The driver has the one list
 * (driver/recipe.c). */
#pragma once

#include "lib/run/model.h"
#include "lib/run/technique.h"

enum { MAX_TECHNIQUES = 20 };

/* The command that trains: options of struct plan and of a struct of its own, and their check, the last of
 * plan_settle. `at` of these options is an offset into the plan; the struct follows the shared ones in plan.own. */
struct job { struct own_options options; enum status (*check)(const struct plan *); };

struct recipe {
    const struct technique *const *techniques;
    int n_techniques;
    const struct model *const *models;
    int n_models;
    const struct job *job;               /* NULL: none */
};

/** The options of a plan and, after them, those of the recipe's job, techniques and models, for a struct that begins
 *  with a plan whose `recipe` is this one. table->option is the caller's to free, also after an error. @errors
 *  E_INTERNAL: they need more room than the plan has; E_MEMORY */
enum status recipe_options_join(const struct recipe *, struct option_table *table);

/* ---- options of jobs, techniques and models, for callers that include none of them ---- */
/** The option of this name; *at is its value in the plan. NULL: no job, technique or model of the plan's recipe has it.
 */
const struct option *plan_option(const struct plan *, const char *name, void **at);
/** The value of an integer, a switch or a choice (its index); a real's value toward 0; 0 for a text, and without such
 *  an option. Set it: nothing without such an option. */
int64_t plan_number(const struct plan *, const char *option);
void plan_set_number(struct plan *, const char *option, int64_t number);
/** The value of a real, or plan_number of another kind. */
double plan_real(const struct plan *, const char *option);
/** Is an option of any kind not 0, off or empty? */
bool plan_says(const struct plan *, const char *option);
/** Does a choice or a text have this value? Set it; count: the N of a choice that ends in ":N", else 0. */
bool plan_has_word(const struct plan *, const char *option, const char *word);
void plan_set_word(struct plan *, const char *option, const char *word, int64_t count);

/** The keeper of a technique that the plan switches on; NULL: none. */
const struct keeper *plan_keeper(const struct plan *);

/** Make this the plan's model. @errors E_CONFIG: unknown name (lists all) */
enum status recipe_arch(struct plan *, const char *name);

/** Find the preset that plan->model names, of the architecture plan->arch_name if that is not "": set plan->arch, and
 *  the preset's options except those that the user set.
 *  @errors E_CONFIG: unknown name (lists all) */
enum status recipe_preset(struct plan *, struct options *);
