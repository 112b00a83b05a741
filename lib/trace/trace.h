/* A trace: the steps of a run as spans on a time line, those of all ranks on one clock.
 *
 *   struct trace *t;
 *   trace_create(run, n_steps, &t);      room for n_steps steps                            after run_create / run_open
 *   trace_start(t);                      measures the clocks, and records from here on     between two steps
 *   ... run_step ...
 *   trace_stop(t);                       measures the clocks again                         between two steps
 *   trace_gather(t, &data);              everything to rank 0 of the mesh, in memory
 *   trace_destroy(&t);                   at the latest before run_destroy
 *   ... data.ranks[r].spans[i], at rank 0 of the mesh ...
 *   trace_data_fini(&data);
 *
 * All but the last are @collective{mesh}: every rank of the layout calls them, ranks beyond it do not. start, stop and
 * gather may be repeated; each start forgets what was recorded before. On a GPU rows are queued, and what the host sees
 * of them are not their times: there events in the streams have them (trace_device.h), read at stop.
 *
 * Cost. Off: one branch a row. On: two readings of the clock and 72 bytes per row; no allocation, no formatting, no
 * message. The room (trace_room_bytes) is no part of the memory plan: it counts as unaccounted. While gathering, rank 0
 * holds the spans of all ranks.
 *
 * Clocks. CLOCK_MONOTONIC of two hosts have nothing in common, and on one host that they agree is a habit, not a
 * promise. So every rank asks rank 0 for the time (trace_clock.h), before the first step and after the last, and its
 * times are moved to rank 0's clock by the line through both. */
#pragma once

#include "lib/base/span.h"
#include "lib/run/run.h"

struct trace;

/** Room for n_steps >= 1 steps of an opened run (that is borrowed). *out is NULL after an error, which is each rank's
 *  own: agree.
 *  @errors E_MEMORY  @collective{none} */
enum status trace_create(struct run *, int64_t n_steps, struct trace **out);
void trace_destroy(struct trace **);
/** What it holds in memory for spans, on this rank. */
int64_t trace_room_bytes(const struct trace *);

/** Record from here on, until stop. No step is in flight at either. @collective{mesh}
 *  @errors E_COMM, E_TIMEOUT; on a GPU E_DEVICE, E_MEMORY */
enum status trace_start(struct trace *);
enum status trace_stop(struct trace *);

/* ---- what was recorded ---- */

/* Bytes alive on the device in one role (lib/trace/memory_timeline.h), from time_s on. */
struct trace_memory { double time_s; int64_t bytes; int32_t role, step; };

struct trace_rank {
    struct mesh_place place;
    char host[64];
    double offset_s, uncertainty_s;      /* rank 0's clock minus this one's, when recording began; off by at most */
    int64_t dropped;                     /* spans for which there was no room: 0, or the trace has holes */
    int64_t planned[N_ROLES], planned_host[N_ROLES];
    int n_spans, n_memory, n_names;
    struct span *spans;                  /* in the order of start_s; times are rank 0's */
    struct trace_memory *memory;         /* in the order of time; a row where a role's bytes change */
    int n_steps, n_params;               /* of the program: names[0 .. n_steps) are their steps, "linear h0.qkv"; ... */
    const char **names;                  /* [n_names]: ... after them params, "h0.attn.w", and slots, "h0.qkv" */
    char *text;                          /* what names point to, */
    int64_t text_bytes;                  /* their bytes */
};
struct trace_data {
    int n_ranks;                         /* 0 on all ranks but rank 0 of the mesh */
    struct trace_rank *ranks;            /* [n_ranks], by rank of the mesh */
    double start_s, end_s;               /* the first start and the last end of all spans */
    int64_t first_step, n_steps;         /* which steps, from 0 */
    int n_chunks;                        /* of the model, on each rank */
};

/** Every rank's spans to rank 0 of the mesh. After stop. @collective{mesh} @errors E_MEMORY, E_COMM, E_TIMEOUT */
enum status trace_gather(struct trace *, struct trace_data *out);
void trace_data_fini(struct trace_data *);

/** What a span is called, without its numbers: "F", "recv_B", "linear h0.qkv backward_weight", "all_reduce". Static
 *  storage. */
const char *trace_span_name(const struct trace_rank *, const struct span *);

/* The bubble as it was: in the time from the first compute action of any rank to the end of the last of any rank, a
 * step, what a rank spends outside of compute actions (SPAN_ACTION, action_is_compute): waiting for neighbors, and
 * fetching messages. Means over steps and ranks. forward_s, backward_s, weight_s: of a microbatch, through all chunks
 * of a rank; weight_s is 0 where weight gradients are part of backward.
 * What a collective inside of an action waits for counts as compute. */
struct trace_bubble { double window_s, idle_s, forward_s, backward_s, weight_s; };
/** The bubble of gathered data with at least one whole step, at rank 0 of the mesh. @collective{none} */
struct trace_bubble trace_bubble(const struct trace_data *);

/** Write the file: Trace Event Format (JSON object form), which ui.perfetto.dev and chrome://tracing open.
 *  docs/trace.md says what is in it. @errors E_IO with path and reason  @collective{none} */
enum status trace_write(const struct trace_data *, const struct plan *, const char *path);
