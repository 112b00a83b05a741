/* What servers have applied, in which order: to be written down, and to be followed again. A file has a line each:
 *
 *   server worker clock seconds version0 version1 ...
 *
 * server applied the gradient of worker's clock (0, 1, ... its step); it was computed with shard k in version_k, which
 * counts the gradients that server k had applied. Lines of one server are in the order of applying. Seconds: since the
 * run's first step, for pictures; nobody reads them. */
#ifndef TRIVIUM_SERVER_SERVER_LOG_H
#define TRIVIUM_SERVER_SERVER_LOG_H

#include "lib/base/status.h"
#include "lib/comm/comm.h"

struct server_log { int n_servers, n_workers, n; int64_t *cell; };   /* n rows of server_log_width cells */
enum { LOG_SERVER, LOG_WORKER, LOG_CLOCK, LOG_MICROSECONDS, LOG_VERSION };
static inline int server_log_width(const struct server_log *l) { return LOG_VERSION + l->n_servers; }
static inline int64_t *server_log_row(const struct server_log *l, int i) {
    return &l->cell[(int64_t)i * server_log_width(l)];
}

/** Append a row; its cells are to be filled in. */
int64_t *server_log_add(struct server_log *);
void server_log_fini(struct server_log *);
/** The row of this worker and clock of one server; NULL: none. */
const int64_t *server_log_find(const struct server_log *, int server, int worker, int64_t clock);

/** Begin a file; append the rows that every server has added since. Rank 0 of the group writes, a server k is rank k.
 *  @errors E_IO  @collective{none} @collective{group} */
enum status server_log_begin(const struct server_log *, const char *path);
enum status server_log_append(struct server_log *mine, const struct group *, const char *path);

/** Read a file. @errors E_IO, E_FORMAT  @collective{none} */
enum status server_log_read(struct server_log *, const char *path, int n_servers, int n_workers);
/** Can such a run be followed from its first step to its last, of n_clocks each? meets(self, clock): there everybody
 *  waits for all. Each worker's clocks once and in order on every server; versions that exist when they are wanted; no
 *  worker that waits for another that waits for it. Pure. @errors E_CONFIG  @collective{none} */
enum status server_log_check(const struct server_log *, int64_t n_clocks, bool (*meets)(const void *self, int64_t clock),
                             const void *self);

#endif
