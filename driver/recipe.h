/* What Trivium trains: the models, and the fixed list of techniques in the order of rewriting. */
#pragma once

#include "lib/run/run.h"
#include <stdio.h>

extern const struct recipe train_recipe;

/** The options of a plan, those of train_recipe's techniques and models among them (recipe_options_join). The same
 *  table at every call; static storage.
 *  @errors E_INTERNAL: they need more room than the plan has; E_MEMORY  @collective{none} */
enum status recipe_options(struct option_table *out);
/** options_create with these, and with `more` (NULL: none) after them. The target begins with a struct plan; this call
 *  clears it and sets its recipe and arch.
 *  @errors as above, and as options_create  @collective{none} */
enum status recipe_options_create(const struct option_table *more, void *target, struct options **out);
/** A plan of defaults. @errors as above */
enum status recipe_plan(struct plan *);

/* The recipe of `trivium generate`: the techniques that a single sequence can use, and the rewrite that makes a decoder
 * of the model. */
extern const struct recipe generate_recipe;
/* Set generation's options in a plan, before it is settled: the number of sequences, logits that can be read, and the
 * cpu unless another device is given. */
void generate_plan(struct plan *, int64_t sequences);

/* ---- parts of the driver that belong to one technique ---- */
/* Commands that go with a technique; ends with {NULL}. */
struct recipe_command { const char *name; int (*main)(int argc, char **argv); };
extern const struct recipe_command recipe_commands[];

/* How pipelines are announced, measured and drawn: driver/chart/pipeline_views.c and the files that it names belong to
 * pp. */
struct cluster;
struct compare_row;
struct json_t;
struct layout;
struct trace_data;
typedef enum status pipeline_draw(const struct recipe *, const struct plan *, unsigned fixed, const struct cluster *,
                                  const struct layout *, FILE *svg, struct json_t **json);
struct pipeline_views {
    void (*announce)(const struct run *, bool overlaps);     /* train: what follows from the schedule */
    enum status (*bubble)(const struct plan *, const struct trace_data *);   /* train --trace: measured and expected */
    void (*note)(const struct plan *, struct compare_row *); /* compare: the row's schedule */
    enum status (*of_rows)(const struct compare_row *, int n_rows, struct json_t *out);
    pipeline_draw *draw;                                     /* plan */
};
extern const struct pipeline_views pipeline_views;           /* gone with pp */
/** NULL: there is no pipeline technique. */
const struct pipeline_views *recipe_draws_pipeline(void);
