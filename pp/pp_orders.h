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
