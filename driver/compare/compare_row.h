/* One row of a comparison: a strategy, whether it ran, and what its ranks measured.
 *
 * Memory and bytes on the wire are those of the rank that has most, since that is what must fit. Waiting is the mean
 * over ranks, since every rank takes part in every step. All but memory is a mean over the timed steps. */
#pragma once

#include "lib/run/run.h"
#include "lib/trace/trace.h"
#include <jansson.h>

enum { COMPARE_REASON_BYTES = 1024 };

/* What one rank says of itself. Plain bytes: ranks send it to rank 0 as it lies. */
struct compare_rank {
    struct mesh_place place;
    int64_t predicted[N_TIERS][N_ROLES], measured[N_TIERS][N_ROLES];   /* beyond the device: what was offloaded */
    int64_t resident_bytes;                                    /* of the whole process, at its peak */
    double sent_bytes[N_MESH_AXES], waited_s[N_MESH_AXES];     /* a step */
    double bubble_s;              /* per step, waiting for pipeline neighbors; part of waited_s */
    double step_s;                /* mean */
    double work_s;                /* of its processors, a step: outside of operations between ranks */
    double flops, replay_flops;   /* per step: forward and backward; what recomputation adds */
    double forward_flops, weight_flops;   /* parts of flops */
};

enum { COMPARE_PASSES = 9 };
struct compare_row {
    const char *strategy;                /* borrowed: its settings, "" for none */
    enum status status;                  /* OK: it ran, and all below is there */
    char reason[COMPARE_REASON_BYTES];   /* why not */
    bool started;                        /* it failed in training; otherwise it was refused before */
    bool coded;                          /* its gradients are rounded on their way (--grad-codec), */
    bool quantized;                      /* or its weights at every use (--weight-codec) */
    bool apart;                          /* its replicas train apart (--local-steps) */
    struct mesh_place layout;            /* its sizes */
    int n_ranks, n_threads;              /* used; threads of each */
    const struct pp_schedule *schedule;
    int n_chunks, n_microbatches;        /* chunks of a stage; microbatches of a replica in a step */
    int64_t n_steps, n_timed;
    double step_s, tokens_per_s;         /* median of the timed steps on rank 0, and what follows from it */
    double work_s;                       /* of all ranks, a step; 0: not measured */
    int n_passes;                        /* how often it was run (--repeat); the two above are then means, of these: */
    double pass_step_s[COMPARE_PASSES], pass_work_s[COMPARE_PASSES];
    double predicted_step_s, predicted_work_s;   /* on --cluster; 0: not asked for */
    double loss, distance;               /* of the last step; relative to the first row that ran, NaN without one */
    struct compare_rank *ranks;          /* [n_ranks], owned */
    struct trace_data trace;             /* rank 0, CPU, pipelines: timed steps of all ranks; else empty. Owned */
    json_t *timeline;                    /* rank 0: of the fullest rank (memory_chart.h); NULL: none. Owned */
};
/** Free what the row owns. */
void compare_row_fini(struct compare_row *);
/** The strategy, and something to read where it has no settings; "ran", "refused" or "failed". Borrowed. */
const char *compare_row_name(const struct compare_row *);
const char *compare_row_status(const struct compare_row *);

/* The ranks of a row folded into one. A total is the largest rank's total, not the sum of the largest roles. */
struct compare_summary {
    int64_t predicted[N_ROLES], measured[N_ROLES];             /* device memory, by role */
    int64_t predicted_tier[N_TIERS], measured_tier[N_TIERS];
    int64_t resident, unaccounted;       /* beyond all that was predicted: code, libraries, MPI, tables, the data */
    double sent_bytes[N_MESH_AXES], waited_s[N_MESH_AXES], bubble_s;
    double bubble_share;                 /* of the step's time */
    double extra_flops;                  /* recomputation / (forward + backward) */
};
/** @collective{none} */
struct compare_summary compare_summarise(const struct compare_row *);

/** A strategy was run once more. */
void compare_row_add_pass(struct compare_row *, double step_s, double work_s);
/** How many rows that ran have shorter steps than this one, or are predicted to have. */
int compare_faster(const struct compare_row *rows, int n_rows, const struct compare_row *than, bool predicted);
/** How far its passes lie apart: (longest - shortest) / mean; 0 for one. */
double compare_row_spread(const struct compare_row *);

/** The rank whose planned total is largest, the first of several. Of a row that ran. */
int compare_fullest(const struct compare_row *);

/** Planned bytes of a rank in memory: the device's and the host's. */
int64_t compare_rank_predicted(const struct compare_rank *);
