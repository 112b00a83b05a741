/* Options of a training job and its files: the driver's own struct in the plan. (An option that lib/run or a technique
 * also reads, such as save-every, is a field of struct plan, or is found by name with plan_option.) */
#pragma once

#include "lib/run/recipe.h"

struct train_options {
    /* machine */
    char cluster[OPTION_TEXT_MAX];
    double peak_tflops;
    /* data */
    char data[OPTION_TEXT_MAX], val_data[OPTION_TEXT_MAX], tokenizer[OPTION_TEXT_MAX];
    int data_as;                         /* enum data_as (lib/data/data.h) */
    double val_fraction;
    int64_t data_ahead, eval_every, eval_batches;
    /* checkpoints */
    char resume[OPTION_TEXT_MAX], init[OPTION_TEXT_MAX];
    int64_t keep;
    int save_async;
    int other_data;                      /* may a resumed run have other data? */
    double mtbf, time_limit, spike_guard;
    char from[OPTION_TEXT_MAX], ignore[OPTION_TEXT_MAX];
    /* output */
    char metrics[OPTION_TEXT_MAX], inject[OPTION_TEXT_MAX], trace[OPTION_TEXT_MAX];
    int64_t trace_first, trace_steps;
    int metrics_append, profile, nvtx, log;       /* log: enum log_level */
};

extern const struct job train_job;
static inline struct train_options *train_options(const struct plan *p) { return plan_own(p, &train_job.options); }
/** The factor by which a settled plan's --inject slows this rank's emulated links; 1: no change. */
double straggler_link_slowdown(const struct plan *);
