/* This process's rank, the settings of operations, their names and costs. This file depends on no other file of the
 * folder. */
#include "lib/comm/transport/host_transport.h"

#include "lib/base/clock.h"
#include "lib/base/cores.h"
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static struct comm_place place = {.rank = 0, .size = 1, .local_rank = 0, .local_size = 1};
#define AT_FIRST {.timeout_s = 600.0, .check_collectives = false}
static const struct comm_settings at_first = AT_FIRST;
static struct comm_settings settings = AT_FIRST;

struct comm_place *comm_world_place(void) { return &place; }

static const struct host_transport *transport;                    /* NULL before comm_start, in a world of one rank */
const struct host_transport *comm_host_transport(void) { return transport; }
void comm_host_transport_is(const struct host_transport *t) { transport = t; }
bool comm_has_library(void) { return !transport || transport->collective; }    /* before comm_start: MPI's */

int comm_world_rank(void) { return place.rank; }
int comm_world_size(void) { return place.size; }
int comm_local_rank(void) { return place.local_rank; }
int comm_local_size(void) { return place.local_size; }
double comm_local_cores(void) {
    return place.local_cores > 0 ? fmin(place.local_cores, cores_quota("")) : cores_allowed();
}

void comm_settings_are(const struct comm_settings *wanted) { settings = wanted ? *wanted : at_first; }
const struct comm_settings *comm_settings_in_force(void) { return &settings; }

/* ---- processor time ---- */
static double work_s;
double comm_work_s(void) { return work_s; }

double comm_enter(void) { return settings.time_work ? thread_s() : 0; }
void comm_leave(double entered_s) {
    if (settings.time_work) work_s += thread_s() - entered_s;
}

/* "node03" and not "node03.cluster.example.org", so that error messages stay short. */
void comm_host_name(char *host, size_t bytes) {
    if (gethostname(host, bytes) != 0) snprintf(host, bytes, "unknown");
    host[bytes - 1] = 0;
    for (char *c = host; *c; c++)
        if (*c == '.') *c = 0;
}

void comm_world_identity(void) {
    char host[64], identity[128];
    comm_host_name(host, sizeof host);
    snprintf(identity, sizeof identity, "rank %d/%d @%s", place.rank, place.size, host);
    status_identity(identity);
}

/* ---- recording (lib/base/span.h) ---- */
static struct spans *recorder;

void comm_record(struct spans *spans) { recorder = spans; }
struct spans *comm_recorder(void) { return recorder; }

static struct comm_watch watch;

void comm_watch_calls(struct comm_watch wanted) { watch = wanted; }
struct comm_watch comm_watching(void) { return watch; }

/* ---- formulas and names ---- */
/* comm.h has these formulas and their source. */
double comm_algorithm_bytes(enum comm_op op, int n, double bytes) {
    double others = n > 1 ? (double)(n - 1) / n : 0.0;
    switch (op) {
    case COMM_ALL_REDUCE: return 2.0 * bytes * others;
    case COMM_ALL_GATHER:
    case COMM_REDUCE_SCATTER:
    case COMM_ALL_TO_ALL: return bytes * others;
    case COMM_BROADCAST:
    case COMM_REDUCE:
    case COMM_SEND: return n > 1 ? bytes : 0.0;
    default: return 0.0; /* recv: the send counts the bytes; barrier: it has none */
    }
}

const char *comm_op_name(enum comm_op op) {
    static const char *const names[N_COMM_OPS] = {
        [COMM_ALL_REDUCE] = "all_reduce", [COMM_ALL_GATHER] = "all_gather", [COMM_REDUCE_SCATTER] = "reduce_scatter",
        [COMM_BROADCAST] = "broadcast",   [COMM_REDUCE] = "reduce",         [COMM_ALL_TO_ALL] = "all_to_all",
        [COMM_SEND] = "send",             [COMM_RECV] = "recv",             [COMM_BARRIER] = "barrier",
    };
    return (unsigned)op < N_COMM_OPS ? names[op] : "unknown operation";
}
