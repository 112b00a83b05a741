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

/** Options, preset, data, vocabulary, settled plan for `world` ranks. Pure but for reading files; every rank does the
 *  same.
 *  @errors E_USAGE, E_CONFIG, E_DATA, E_FORMAT  @collective{none} */
enum status setup_init(struct setup *, int argc, char **argv, int world);
/** As setup_init, but the caller has already made and parsed the options: the plan's, and its own.
 *  @errors E_USAGE, E_CONFIG, E_DATA, E_FORMAT, E_MEMORY  @collective{none} */
enum status setup_open(struct setup *, int world);
/** Its two parts: read the files; then settle the plan for a number of ranks.
 *  @errors as setup_open  @collective{none} */
enum status setup_read(struct setup *);
/** @errors as setup_open  @collective{none} */
enum status setup_settle(struct setup *, int world);
void setup_fini(struct setup *);

/** The part without data, for `show`: *plan is the first member of the target of `options`. world 0: dp tp pp, dp at
 *  least 1. vocab's default is 256. Options with the value auto are chosen (planner/choose.h).
 *  @errors E_USAGE: an unknown preset; E_CONFIG: options that cannot be combined  @collective{none} */
enum status setup_plan(struct options *, struct plan *plan, int world);

/** Set the sizes of the preset, or with --init and --resume those of the checkpoint's model (not for clicks, whose data
 *  have them). Options that the user set stay, as does a --model other than tiny; checkpoint_load compares.
 *  @errors E_CONFIG: no such preset; E_DATA, E_FORMAT: no checkpoint  @collective{none} */
enum status setup_model(struct options *, struct plan *plan);
/** The checkpoint that a run goes on from or begins with; "": none. Borrowed. */
const char *setup_from(const struct plan *);
/** The sizes of a checkpoint's model as options of this source. @errors those of options_set */
struct checkpoint_model;
enum status setup_sizes(const struct checkpoint_model *, struct options *, enum option_source);

/** The cluster of a plan, or of its device where it names none, with the plan's memory limit.
 *  @errors those of cluster_read */
enum status setup_cluster(const struct plan *, struct cluster *);
/** The cluster that `plan` and `budget` price: dgx-a100 unless the options name one. If its ranks are GPUs, device
 *  becomes cuda and precision bf16 unless the options set them. @errors those of cluster_read */
enum status setup_target(struct options *, struct plan *, struct cluster *);

/** Use plan->threads (or comm_local_cores / local ranks) OpenMP threads; warn when this rank may run on fewer cores.
 *  @return the number of threads */
int setup_threads(const struct plan *, int local_ranks);

/** The number of cores on which this process may run, at least 1: cores_allowed, rounded down. */
int setup_allowed_cores(void);
/** The same in words: "free on 8 cores", "bound to 1 of 8 cores", "a quota of 1.5 of 8 cores". Static storage. */
const char *setup_binding(void);
