/* What a command line says of a training job and its files, and neither the program nor a technique reads: the options
 * of the driver's own struct, in the plan. (What lib/run or a technique reads too, such as save-every, is in struct
 * plan itself.) */
#ifndef TRIVIUM_DRIVER_TRAIN_OPTIONS_H
#define TRIVIUM_DRIVER_TRAIN_OPTIONS_H

#include "lib/run/recipe.h"

struct train_options {
    /* machine */
    char cluster[OPTION_TEXT_MAX];
    double peak_tflops;
    /* data */
    char data[OPTION_TEXT_MAX], val_data[OPTION_TEXT_MAX], tokenizer[OPTION_TEXT_MAX];
    int data_as;                         /* enum data_as (lib/data/data.h) */
    double val_fraction;
    int64_t eval_batches;
    /* checkpoints */
    char init[OPTION_TEXT_MAX];
    int64_t keep;
    int other_data;                      /* may a run that goes on have other data? */
    double mtbf;
    /* output */
    char metrics[OPTION_TEXT_MAX], inject[OPTION_TEXT_MAX];
    int64_t trace_first, trace_steps;
    int metrics_append, nvtx, log;       /* log: enum log_level */
};

extern const struct job train_job;
static inline struct train_options *train_options(const struct plan *p) { return plan_own(p, &train_job.options); }
/** How many times as long the emulated links of this rank take under a settled plan's --inject; 1: as long. */
double straggler_link_slowdown(const struct plan *);

#endif
