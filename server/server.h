/* Parameter servers: some replicas keep the optimizer, a shard each, and the others push gradients to them and pull
 * weights. See server.c; who updates in its own time: server_loop.c. */
#ifndef TRIVIUM_SERVER_SERVER_H
#define TRIVIUM_SERVER_SERVER_H

#include "lib/run/technique.h"

extern const struct technique technique_server;

enum server_mode { SERVER_SYNC, SERVER_SSP, SERVER_ASYNC };
struct server_options {
    int64_t servers;
    int mode;                                  /* enum server_mode */
    int64_t staleness;
    char record[OPTION_TEXT_MAX], order[OPTION_TEXT_MAX];
};
static inline struct server_options *server_options(const struct plan *p) {
    return plan_own(p, &technique_server.options);
}

/** Which of n elements server k of n_servers has: [n k / n_servers, n (k + 1) / n_servers). Pure. @collective{none} */
struct server_part { int64_t first, n; };
struct server_part server_part(int64_t n, int k, int n_servers);

/** May a worker have the weights for its clock t, when the slowest has finished `slowest` clocks? Yes if it is at most
 *  `staleness` ahead: t - slowest <= staleness. Pure. @collective{none} */
static inline bool server_allows(int64_t clock, int64_t slowest, int64_t staleness) {
    return clock - slowest <= staleness;
}

#endif
