/* From argv to a settled plan and open data: the same for every command that trains. */
#pragma once

#include "lib/base/option.h"
#include "lib/data/data.h"
#include "lib/cost/cluster.h"
#include "lib/run/plan.h"

struct setup {
    struct plan plan;
    struct options *options;
    struct data_file *data, *val_data;
    bool is_borrowed;                        /* options and data are another setup's, which closes them */
    struct data_split train, val;
};

/** Options, preset, data, vocabulary, settled plan for `world` ranks. Every rank reads the same files and gets the same
 *  result.
 *  @errors E_USAGE, E_CONFIG, E_DATA, E_FORMAT  @collective{none} */
enum status setup_init(struct setup *, int argc, char **argv, int world);
/** As setup_init, but the caller has already created and parsed the options, which may include the caller's own.
 *  @errors E_USAGE, E_CONFIG, E_DATA, E_FORMAT, E_MEMORY  @collective{none} */
enum status setup_open(struct setup *, int world);
/** The first part of setup_open: read the files.
 *  @errors as setup_open  @collective{none} */
enum status setup_read(struct setup *);
/** The second part: settle the plan for `world` ranks. @errors as setup_open  @collective{none} */
enum status setup_settle(struct setup *, int world);
void setup_fini(struct setup *);

/** setup_open without data, for `show`. *plan is the first member of the options' target. world 0: the world is the
 *  layout's ranks, with dp at least 1; vocab is 256 by default. Chooses options with the value auto (planner/choose.h).
 *  @errors E_USAGE: an unknown preset; E_CONFIG: options that cannot be combined  @collective{none} */
enum status setup_plan(struct options *, struct plan *plan, int world);

/** Set options to what the file of --from says (from_apply), then to the preset. Options that the user set stay.
 *  @errors those of from_apply and recipe_preset  @collective{none} */
enum status setup_preset(struct options *, struct plan *, bool trains);
/** Set the model's sizes: the preset's, or with --init or --resume the checkpoint's. (A model of clicks gets its sizes
 *  from its data.) Options that the user set stay, as does a --model other than tiny; checkpoint_load checks them.
 *  @errors E_CONFIG: no such preset; E_DATA, E_FORMAT: no checkpoint  @collective{none} */
enum status setup_model(struct options *, struct plan *plan, bool trains);
/** The checkpoint of --resume or --init; "": none. Borrowed. */
const char *setup_from(const struct plan *);
/** What the model is called: the file of --from, or --model. Borrowed. */
const char *setup_name(const struct plan *);
/** Set options to the sizes of a checkpoint's model, with this source. @errors those of options_set */
struct checkpoint_model;
enum status setup_sizes(const struct checkpoint_model *, struct options *, enum option_source);

/** Read the plan's cluster, or its device's default cluster, and apply the plan's memory limit.
 *  @errors those of cluster_read */
enum status setup_cluster(const struct plan *, struct cluster *);
/** trace_create, with the links of the cluster that the plan names. @errors those of cluster_read, trace_create */
struct run;
struct trace;
enum status setup_trace(struct run *, int64_t n_steps, struct trace **out);
/** The cluster that `plan` and `budget` price: dgx-a100 unless the options name one. If its ranks are GPUs, the default
 *  device becomes cuda and the default precision bf16. @errors those of cluster_read */
enum status setup_target(struct options *, struct plan *, struct cluster *);

/** Use plan->threads (or comm_local_cores / local ranks) OpenMP threads; warn when this rank may run on fewer cores.
 *  @return the number of threads */
int setup_threads(const struct plan *, int local_ranks);

/** The number of cores on which this process may run, at least 1: cores_allowed, rounded down. */
int setup_allowed_cores(void);
/** The binding in words: "free on 8 cores", "bound to 1 of 8 cores", "a quota of 1.5 of 8 cores". Static storage. */
const char *setup_binding(void);
