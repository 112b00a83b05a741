/* The state of a trace. Private to trace*.c. */
#pragma once

#include "lib/trace/memory_timeline.h"
#include "lib/trace/trace.h"
#include "lib/trace/trace_device.h"

/* ---- one clock for all ranks: trace_clock.c ---- */
typedef double clock_reader(void);

/* One request for the time. sent_s, back_s: this rank's clock when it sends the request and gets the answer; there_s:
 * rank 0's clock in between. */
struct clock_ping { double sent_s, there_s, back_s; };
/* offset_s: rank 0's clock minus this rank's, at this rank's time at_s. Its error is at most uncertainty_s. */
struct clock_offset { double at_s, offset_s, uncertainty_s; };

/** The offset from the ping with the shortest round trip, of n >= 1 pings. Pure. */
struct clock_offset clock_offset_of(const struct clock_ping *, int n);

/** Convert a time of this rank to rank 0's clock, by the line through two measurements, which also extrapolates. If
 *  both have the same at_s, the offset is constant. Pure. */
double clock_at_rank_0(const struct clock_offset *before, const struct clock_offset *after, double time_s);

/** Measure this rank's offset to rank 0 of the group with the clock now(): clock_s, except in tests. 0 on rank 0.
 *  @collective{group} @errors E_COMM, E_TIMEOUT */
enum status clock_measure(const struct group *, clock_reader *now, struct clock_offset *out);

struct trace {
    struct run *run;
    struct spans spans;
    struct memory_timeline timeline;
    struct clock_offset before, after;   /* the offsets to rank 0 of the mesh before and after recording */
    struct trace_device *device;         /* NULL: the host does the work, so its times are exact */
    int64_t n_steps, first_step;         /* the number of steps that fit; the first recorded step */
    bool recording;
    struct trace_links links;
};

/* A time of the file: whole nanoseconds since its beginning. */
static inline int64_t trace_ns(double seconds) { return (int64_t)(seconds * 1e9 + 0.5); }

/* ---- trace_links.c ---- */
/* Bytes that pass evenly from start_ns to end_ns, at least for a nanosecond. */
struct link_message { int64_t start_ns, end_ns; double bytes; int link; };
/* The sum of a link's messages, from at_ns until the link's next element. */
struct link_rate { int64_t at_ns; int link; double bytes_per_s; };
/** The rates of n messages, in the order of time; each link's last is 0. The caller frees them. */
struct link_rate *link_rates(const struct link_message *, int n, int *n_rates);

/* What every rank sends, by link: links 0 to trace_n_links - 1 lie between ranks, the next two lead to host memory and
 * back. */
struct trace_sent;
struct trace_sent *trace_sent_create(const struct trace_data *, const struct plan *);
void trace_sent_destroy(struct trace_sent **);
/** The n messages of one rank; the caller frees them. */
struct link_message *trace_sent_by(struct trace_sent *, int rank, int *n);
int trace_n_links(const struct trace_data *);
/** The name, and the rate; 0: unknown. */
const char *trace_link_name(const struct trace_data *, int link);
double trace_link_bytes_per_s(const struct trace_data *, int link);
/** The innermost link between two ranks of the mesh. */
int trace_link_between(const struct trace_data *, int a, int b);
/** The id of a send's or receive's message, equal at both ends. */
int64_t trace_message(const struct trace_data *, const struct plan *, const struct trace_rank *, const struct span *);

/* ---- trace_names.c ---- */
/* Fill the names of the run's program, their text and counts; zero the other fields. Call trace_names_fini even after
 * an error. @errors E_MEMORY */
enum status trace_names_of(const struct run *, struct trace_rank *out);
/* Point names[] into an existing text. @errors E_MEMORY */
enum status trace_names_find(struct trace_rank *);
void trace_names_fini(struct trace_rank *);
