/* What Trivium trains: the models, and the fixed list of techniques in the order of rewriting. */
#pragma once

#include "lib/run/run.h"
#include <stdio.h>

extern const struct recipe train_recipe;

/** The options of a plan, including those of train_recipe's techniques and models (recipe_options_join). Every call
 *  returns the same table, in static storage.
 *  @errors E_INTERNAL: the options need more room than a plan has; E_MEMORY  @collective{none} */
enum status recipe_options(struct option_table *out);
/** options_create with the table of recipe_options, then `more` (or NULL). The target begins with a struct plan; this
 *  call clears the plan, and sets its recipe and arch.
 *  @errors those of recipe_options and options_create  @collective{none} */
enum status recipe_options_create(const struct option_table *more, void *target, struct options **out);
/** Set a plan to its defaults. @errors those of recipe_options_create */
enum status recipe_plan(struct plan *);

/* The recipe of `trivium generate`: the techniques that a single sequence can use, and technique_decode, which rewrites
 * the model into a decoder. */
extern const struct recipe generate_recipe;
/* Set generation's options in a plan before plan_settle: the number of sequences, unchunked logits, and the CPU in
 * place of an automatic device. */
void generate_plan(struct plan *, int64_t sequences);

/* ---- parts of the driver that belong to one technique ---- */
/* Commands that belong to a technique; the last row has name NULL. */
struct recipe_command { const char *name; int (*main)(int argc, char **argv); };
extern const struct recipe_command recipe_commands[];

/* Functions that announce, measure and draw pipelines. driver/chart/pipeline_views.c and the files that it names belong
 * to pp. */
struct cluster;
struct compare_row;
struct json_t;
struct layout;
struct trace_data;
typedef enum status pipeline_draw(const struct recipe *, const struct plan *, unsigned fixed, const struct cluster *,
                                  const struct layout *, FILE *svg, struct json_t **json);
struct pipeline_views {
    void (*announce)(const struct run *, bool overlaps);     /* train: print notes on the schedule */
    enum status (*bubble)(const struct plan *, const struct trace_data *);   /* train --trace: measured and expected */
    void (*note)(const struct plan *, struct compare_row *); /* compare: the row's schedule */
    enum status (*of_rows)(const struct compare_row *, int n_rows, struct json_t *out);
    pipeline_draw *draw;                                     /* plan */
};
extern const struct pipeline_views pipeline_views;           /* belongs to pp */
/** @return NULL if there is no pipeline technique */
const struct pipeline_views *recipe_draws_pipeline(void);
