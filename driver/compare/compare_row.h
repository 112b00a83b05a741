/* One row of a comparison: a strategy, its status, and its ranks' measurements.
 *
 * Memory and sent bytes are those of the rank that has most, because that rank must fit. Waiting time is the mean over
 * ranks, because every rank takes part in every step. All numbers except memory are means over the timed steps. */
#pragma once

#include "lib/run/run.h"
#include "lib/trace/trace.h"
#include <jansson.h>

enum { COMPARE_REASON_BYTES = 1024 };

/* The measurements of one rank. The struct has no pointers, because ranks send its bytes to rank 0. */
struct compare_rank {
    struct mesh_place place;
    int64_t predicted[N_TIERS][N_ROLES], measured[N_TIERS][N_ROLES];   /* host and disk: offloaded bytes */
    int64_t resident_bytes;                                    /* of the whole process, at its peak */
    double sent_bytes[N_MESH_AXES], waited_s[N_MESH_AXES];     /* per step */
    double bubble_s;              /* per step, waiting for pipeline neighbors; part of waited_s */
    double step_s;                /* mean */
    double work_s;                /* processor time per step, without communication */
    double flops, replay_flops;   /* per step: forward and backward; what recomputation adds */
    double forward_flops, weight_flops;   /* parts of flops */
};

enum { COMPARE_PASSES = 9 };
struct compare_row {
    const char *strategy;                /* borrowed: its settings, "" for none */
    enum status status;                  /* OK: the strategy ran, and all fields are set */
    char reason[COMPARE_REASON_BYTES];   /* if not OK: the error */
    bool started;                        /* if not OK: training has started; false: the strategy is refused */
    bool coded;                          /* gradients are rounded when they are sent (--grad-codec) */
    bool quantized;                      /* weights are rounded at every use (--weight-codec) */
    bool apart;                          /* replicas train without an all-reduce per step (--local-steps) */
    struct mesh_place layout;            /* the mesh's sizes */
    int n_ranks, n_threads;              /* used; threads of each */
    const struct pp_schedule *schedule;
    int n_chunks, n_microbatches;        /* chunks of a stage; microbatches of a replica in a step */
    int64_t n_steps, n_timed;
    double step_s, tokens_per_s;         /* median of rank 0's timed steps; tokens per second of such a step */
    double work_s;                       /* of all ranks, per step; 0: not measured */
    int n_passes;                        /* --repeat; step_s and work_s are means over passes: */
    double pass_step_s[COMPARE_PASSES], pass_work_s[COMPARE_PASSES];
    double predicted_step_s, predicted_work_s;   /* on --cluster; 0: no prediction */
    double scale_factor;                 /* tokens per second / n_ranks / those of one rank; 0: no row has one rank */
    double loss, distance;               /* of the last step; relative to the first row that ran, NaN without one */
    struct compare_rank *ranks;          /* [n_ranks], owned */
    struct trace_data trace;             /* on rank 0, of a pipeline on a CPU: all ranks' steps; else empty. Owned */
    json_t *timeline;                    /* on rank 0: memory over time of the fullest rank; NULL: none. Owned */
};
/** Free what the row owns. */
void compare_row_fini(struct compare_row *);
/** The strategy, or "(as it is)" if it has no settings. The status: "ran", "refused" or "failed". Borrowed. */
const char *compare_row_name(const struct compare_row *);
const char *compare_row_status(const struct compare_row *);

/* A row's measurements combined over its ranks. A total is the largest rank's total, not the sum of largest roles. */
struct compare_summary {
    int64_t predicted[N_ROLES], measured[N_ROLES];             /* device memory, by role */
    int64_t predicted_tier[N_TIERS], measured_tier[N_TIERS];
    int64_t resident, unaccounted;       /* unaccounted: resident and not predicted: code, libraries, MPI, data */
    double sent_bytes[N_MESH_AXES], waited_s[N_MESH_AXES], bubble_s;
    double bubble_share;                 /* of the step's time */
    double extra_flops;                  /* recomputation / (forward + backward) */
};
/** @collective{none} */
struct compare_summary compare_summarise(const struct compare_row *);

/** Add a pass to the row's means. */
void compare_row_add_pass(struct compare_row *, double step_s, double work_s);
/** Set all rows' scale factors, T_n / (n T_1). One rank: the first such row that ran. */
void compare_rows_scale(struct compare_row *rows, int n_rows);
/** The number of rows that ran with shorter measured (or predicted) steps than row `than`. */
int compare_faster(const struct compare_row *rows, int n_rows, const struct compare_row *than, bool predicted);
/** The spread of the row's passes: (longest - shortest) / mean; 0 for one pass. */
double compare_row_spread(const struct compare_row *);

/** The first rank with the largest planned device total. The row must have run. */
int compare_fullest(const struct compare_row *);

/** Planned bytes of a rank in memory: the device's and the host's. */
int64_t compare_rank_predicted(const struct compare_rank *);
