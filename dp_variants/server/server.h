/* Parameter servers: some replicas keep the optimizer, a shard each, and the others push gradients to them and pull
 * weights. See server.c. Servers that wait for all workers are in server_sync.c, others in server_loop.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_server;

enum server_mode { SERVER_SYNC, SERVER_SSP, SERVER_ASYNC };
enum server_where { SERVER_SHARED, SERVER_OWN };
struct server_options {
    int64_t servers;
    int where, mode;                           /* enum server_where, server_mode */
    int64_t staleness;
    char record[OPTION_TEXT_MAX], order[OPTION_TEXT_MAX];
};
static inline struct server_options *server_options(const struct plan *p) {
    return plan_own(p, &technique_server.options);
}

/** The part of n elements on server k of n_servers: [n k / n_servers, n (k + 1) / n_servers). Pure.
 *  @collective{none} */
struct server_part { int64_t first, n; };
struct server_part server_part(int64_t n, int k, int n_servers);

/* Roles of a param's replicas: worker w is rank w of them, server k is rank first_server + k. Servers that
 * share their ranks with workers are the first; those on ranks of their own are the last, so that rank 0 has a loss. */
struct server_ranks { int n_servers, n_workers, first_server; };
/** replicas: AXIS_DP or AXIS_EDP. An expert has fewer replicas than other params, perhaps fewer than servers. Pure.
 *  @collective{none} */
struct server_ranks server_ranks_of(const struct plan *, enum mesh_axis replicas);
/** The number of the server on a rank; -1: none. Pure. @collective{none} */
static inline int server_of_rank(const struct server_ranks *x, int rank) {
    int k = rank - x->first_server;
    return k >= 0 && k < x->n_servers ? k : -1;
}

/** May a worker have the weights for its clock t, when the slowest worker has finished `slowest` clocks? Yes if
 *  t - slowest <= staleness. Pure. @collective{none} */
static inline bool server_allows(int64_t clock, int64_t slowest, int64_t staleness) {
    return clock - slowest <= staleness;
}

/** Refuse impossible settings (server_refuse.c); settle refuses a layout that leaves no worker. Pure.
 *  @errors E_CONFIG  @collective{none} */
enum status server_check(const struct plan *);
enum status server_settle(struct plan *);
