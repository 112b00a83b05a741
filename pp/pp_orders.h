/* Three makers of orders: by counting (pp_count.c), by phases (pp_phases.c), by list scheduling (pp_list.c). */
#pragma once

#include "pp/pp_schedule.h"

/** Set all fields of all stages except their actions: the input of order_all. */
void pp_begin_all(const struct pp_schedule *, const struct pp_shape *, struct schedule *stages);

struct pp_count {
    int warm;       /* forwards are at most warm + 1 ahead of backwards */
    int group;      /* microbatches that pass a chunk before the next chunk gets any */
    int late;       /* with split W: microbatches between a B and its W, until the forwards end */
};
/** All actions of a stage. out->split_weight says whether W is apart. @collective{none} */
void pp_count(const struct pp_shape *, struct pp_count, struct schedule *out);

/** What rows in pp_schedules.c are made of (pp_schedule.c, pp_zero_bubble.c): a stage's actions, its peak, a step's
 *  idle time. f_and_b: the time of a microbatch's forward and backward on a stage. @collective{none} */
typedef void pp_order(const struct pp_shape *, int stage, struct schedule *out);
typedef int pp_peak(const struct pp_shape *, int stage);
pp_order pp_gpipe_order, pp_1f1b_order, pp_interleaved_order, pp_h1_order, pp_h2_order;
pp_peak pp_gpipe_peak, pp_1f1b_peak, pp_interleaved_peak, pp_h1_peak, pp_h2_peak;
double pp_bubble(const struct pp_shape *, double f_and_b);
double pp_h1_bubble(const struct pp_shape *, const struct pp_work *);
double pp_h2_bubble(const struct pp_shape *, const struct pp_work *);

/** Without a flush (pp_ages.c): the ages of the weights that a stage reads for the forward of a step's microbatch
 *  j + w, and for the backward of j. pp_versions: how many versions of the weights it keeps then. */
struct pp_ages { int64_t forward, backward; };
typedef struct pp_ages pp_ages_of(const struct pp_shape *, int stage, int j);
pp_ages_of pp_stashed, pp_vertical_sync, pp_double_buffered;
int pp_versions(const struct pp_shape *, int stage, pp_ages_of *);

/* A phase repeats its letters: "F1B1W1" is the next forward, backward and weight gradient of chunk 1. */
enum { UNTIL_FORWARDS_END = -1 };
struct pp_phase { int times; const char *letters; };
/** All actions of a stage of two chunks, phase after phase. A letter without a microbatch left is skipped.
 *  @collective{none} */
void pp_phases(const struct pp_phase *, int n_phases, struct schedule *out);

/* The kind of action that a free rank prefers. */
enum pp_prefer { PP_BACKWARD_FIRST, PP_FORWARD_FIRST, PP_IN_TURNS };
struct pp_policy {
    enum pp_prefer prefer;
    int memory;                  /* chunks of microbatches in flight on a rank, at most; 0: any number */
    int slope, more;             /* forwards ahead of backwards on virtual stage s, at most: slope (n_virtual - s) +
                                  * more; slope 0: any number */
    int gap;                     /* a W fills an idle time of at least this part of its own, in percent */
};
/** The actions of all stages, stages[n_stages], in one simulated run. @return false: the memory is too small, and the
 *  run stops; stages has the actions until then.  @collective{none} */
bool pp_list(const struct pp_schedule *, const struct pp_shape *, const struct pp_policy *, struct schedule *stages);
