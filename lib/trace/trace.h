/* A trace: the steps of a run as spans on a time line, with all ranks on one clock.
 *
 *   struct trace *t;
 *   trace_create(run, n_steps, links, &t);   room for n_steps steps                        after run_create / run_open
 *   trace_start(t);                      measures the clocks, and begins to record         between two steps
 *   ... run_step ...
 *   trace_stop(t);                       measures the clocks again                         between two steps
 *   trace_gather(t, &data);              sends all spans to rank 0 of the mesh, in memory
 *   trace_destroy(&t);                   at the latest before run_destroy
 *   ... data.ranks[r].spans[i], at rank 0 of the mesh ...
 *   trace_data_fini(&data);
 *
 * start, stop and gather are @collective{mesh}: every rank of the layout calls them, and no rank outside of it. They
 * may be repeated; each start discards the recorded spans. On a GPU the host only queues rows, so its times are not the
 * rows' times. Events in the streams have these times (trace_device.h); trace_stop reads them.
 *
 * Cost. Off: one branch a row. On: two readings of the clock and 72 bytes per row; no allocation, no formatting, no
 * message. The spans' memory (trace_room_bytes) is outside of the memory plan and counts as unaccounted. While
 * gathering, rank 0 holds the spans of all ranks.
 *
 * Clocks. CLOCK_MONOTONIC differs between hosts, and may differ between processes of one host. So every rank asks rank
 * 0 for the time (trace_clock.c), before the first traced step and after the last. The line through both measurements
 * converts the rank's times to rank 0's clock. */
#pragma once

#include "lib/base/span.h"
#include "lib/run/run.h"

struct trace;

/* The links between ranks by level, from the innermost outward, with a rank's rate each way: those of a cluster's file
 * (lib/cost/cluster.h). n 0: no file is known. Then a link lies in a node or between nodes, and has no rate.
 * host_bytes_per_s: between a rank's memory and its host's; 0: unknown. rails: level 1 joins rank k of every node. */
enum { MAX_TRACE_LEVELS = 8 };
struct trace_links {
    int n;
    bool rails;
    double host_bytes_per_s;
    struct trace_level { char name[16]; int64_t ranks; double bytes_per_s; } level[MAX_TRACE_LEVELS];
};

/** Allocate the spans of n_steps >= 1 steps of an opened run (borrowed). *out is NULL after an error. The call can fail
 *  on one rank alone, so the caller must let the ranks agree (fail_agree). @param links copied; NULL: none are known
 *  @errors E_MEMORY  @collective{none} */
enum status trace_create(struct run *, int64_t n_steps, const struct trace_links *links, struct trace **out);
void trace_destroy(struct trace **);
/** The bytes of this rank's memory for spans. */
int64_t trace_room_bytes(const struct trace *);

/** Begin and end recording. No step may be in flight at either call. @collective{mesh}
 *  @errors E_COMM, E_TIMEOUT; on a GPU E_DEVICE, E_MEMORY */
enum status trace_start(struct trace *);
enum status trace_stop(struct trace *);

/* ---- recorded data ---- */

/* The bytes of a role that are alive on the device from time_s on (lib/trace/memory_timeline.h). */
struct trace_memory { double time_s; int64_t bytes; int32_t role, step; };

struct trace_rank {
    struct mesh_place place;
    char host[64];
    int node;                            /* comm_node */
    double offset_s, uncertainty_s;      /* rank 0's clock minus this rank's at trace_start, and its largest error */
    int64_t dropped;                     /* spans dropped for lack of room; if not 0, the trace has holes */
    int64_t planned[N_ROLES], planned_host[N_ROLES];
    int n_spans, n_memory, n_names;
    struct span *spans;                  /* in the order of start_s; times are on rank 0's clock */
    struct trace_memory *memory;         /* in the order of time; an element for each change of a role's bytes */
    int n_steps, n_params;               /* of the program */
    const char **names;                  /* [n_names]: steps "linear h0.qkv", params "h0.attn.w", slots "h0.qkv", and
                                          * the work of each step's rows: see trace_span_work */
    char *text;                          /* the names' characters */
    int64_t text_bytes;                  /* size of text */
};
struct trace_data {
    int n_ranks;                         /* 0, except on rank 0 of the mesh */
    struct trace_rank *ranks;            /* [n_ranks], by rank of the mesh */
    double start_s, end_s;               /* the first start and the last end of all spans */
    int64_t first_step, n_steps;         /* the recorded steps, counted from 0 */
    int n_chunks;                        /* of the model, on each rank */
    struct trace_links links;            /* as rank 0 has them */
};

/** Send every rank's spans to rank 0 of the mesh; after stop. @collective{mesh} @errors E_MEMORY, E_COMM, E_TIMEOUT */
enum status trace_gather(struct trace *, struct trace_data *out);
void trace_data_fini(struct trace_data *);

/** The name of a span, without its numbers: "F", "recv_B", "linear h0.qkv backward_weight", "all_reduce". Static
 *  storage. */
const char *trace_span_name(const struct trace_rank *, const struct span *);

/** The work of a row, as members of its args: ,"dtype":"bf16","flops":...,"bytes":...,"products":[[m,n,k,batch],...].
 *  "" if the span is no row, of two steps, or of a row in which ranks exchange. Its flops leave out what a causal mask
 *  hides; bytes is the memory traffic of op_cost. */
const char *trace_span_work(const struct trace_rank *, const struct span *);

/* The measured bubble. window_s: from the start of a step's first compute action on any rank to the end of its last.
 * idle_s: the time in the window that a rank spends outside of compute actions (SPAN_ACTION, action_is_compute), for
 * example waiting for messages. forward_s, backward_s, weight_s: time of a microbatch through all chunks of a rank;
 * weight_s is 0 if weight gradients are part of backward. All are means over steps and ranks.
 * The wait of a collective inside an action counts as compute. */
struct trace_bubble { double window_s, idle_s, forward_s, backward_s, weight_s; };
/** The bubble of gathered data with at least one whole step, at rank 0 of the mesh. @collective{none} */
struct trace_bubble trace_bubble(const struct trace_data *);

/** Write the file: Trace Event Format (JSON object form), which ui.perfetto.dev and chrome://tracing open.
 *  docs/trace.md describes its content. @errors E_IO with path and reason  @collective{none} */
enum status trace_write(const struct trace_data *, const struct plan *, const char *path);

/* ---- a run's steps, phases, actions and rows as NVTX ranges (lib/base/nvtx.h), with the names of a trace ---- */
struct trace_nvtx;

/** From now on each step of the opened run (borrowed) is a range, with nested ranges for its phases, actions and rows.
 *  A range shows the host's time, in which the host queues a GPU's work. Collectives do not nest, and have no ranges.
 *  Cannot be used together with a trace, because both need the run's recorder.  @errors E_MEMORY  @collective{none} */
enum status trace_nvtx_begin(struct run *, struct trace_nvtx **out);
/** Call before run_destroy. Does nothing if the pointer is NULL. */
void trace_nvtx_end(struct trace_nvtx **);
