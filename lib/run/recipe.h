/* A recipe lists the models of a program, and its techniques in the order in which they rewrite. The driver's recipe is
 * driver/recipe.c. */
#pragma once

#include "lib/run/model.h"
#include "lib/run/technique.h"

enum { MAX_TECHNIQUES = 24 };

/* The command that trains: its options, and their check, which plan_settle calls last. `at` of an option is an offset
 * into struct plan, because some options are fields of the plan; the job's struct follows shared_options in plan.own.
 */
struct job { struct own_options options; enum status (*check)(const struct plan *); };

struct recipe {
    const struct technique *const *techniques;
    int n_techniques;
    const struct model *const *models;
    int n_models;
    const struct job *job;               /* NULL: none */
};

/** Make a table of the plan's options and then those of the recipe's job, techniques and models. The table's target is
 *  a struct that begins with a plan whose `recipe` is this recipe. The caller frees table->option, even after an error.
 *  @errors E_INTERNAL: the options need more room than plan.own has; E_MEMORY */
enum status recipe_options_join(const struct recipe *, struct option_table *table);

/* ---- options of jobs, techniques and models, for callers that include none of them ---- */
/** The option of this name; *at is its value in the plan. NULL: no job, technique or model of the plan's recipe has it.
 */
const struct option *plan_option(const struct plan *, const char *name, void **at);
/** The value of an integer, of a switch, or of a choice (its index); a real is rounded toward 0. 0: the option is a
 *  text, or no option has the name. plan_set_number sets the value, if there is such an option. */
int64_t plan_number(const struct plan *, const char *option);
void plan_set_number(struct plan *, const char *option, int64_t number);
/** The value of a real, or plan_number of another kind. */
double plan_real(const struct plan *, const char *option);
/** Does the option have a value other than 0, off or the empty text? */
bool plan_says(const struct plan *, const char *option);
/** Is this word the value of a choice or a text? plan_set_word sets it; count: the N of a choice "word:N", else 0. */
bool plan_has_word(const struct plan *, const char *option, const char *word);
void plan_set_word(struct plan *, const char *option, const char *word, int64_t count);

/** The keeper of the technique that has one and is on; NULL: there is none. */
const struct keeper *plan_keeper(const struct plan *);

/** Set plan->arch to the model of this name. @errors E_CONFIG: unknown name (the error lists all names) */
enum status recipe_arch(struct plan *, const char *name);

/** Find the preset that plan->model names, of the architecture plan->arch_name if that is not "": set plan->arch, and
 *  the preset's options except those that the user set.
 *  @errors E_CONFIG: unknown name (lists all) */
enum status recipe_preset(struct plan *, struct options *);
