/* The gradients that servers have applied, in order: a record that a later run can follow. A line of the file:
 *
 *   server worker clock seconds version0 version1 ...
 *
 * `server` applied the gradient of `worker` at `clock` (its step: 0, 1, ...), computed with shard k in version_k, which
 * counts the gradients that server k had applied. Lines of one server are in the order of applying. seconds: since the
 * creation of the run, for pictures; not read again. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/comm.h"

enum { LOG_WORKER, LOG_CLOCK, LOG_MICROSECONDS, LOG_VERSION };       /* cells of a row; version_k: LOG_VERSION + k */
/* Server k has n[k] rows. begun: the file has a header. All zero: an empty log. */
struct server_log { int n_servers, n_workers, *n; int64_t **cell; bool begun; };

/** An empty log for n_servers and n_workers. */
void server_log_init(struct server_log *, int n_servers, int n_workers);
void server_log_fini(struct server_log *);
/** Row i of a server, counted from 0; and a new row, for the caller to fill in. */
int64_t *server_log_row(const struct server_log *, int server, int i);
int64_t *server_log_add(struct server_log *, int server);
/** The index of a server's row of this worker and clock; -1: none. */
int server_log_find(const struct server_log *, int server, int64_t worker, int64_t clock);

/** Check that the file can be written. An old file keeps its content. @errors E_IO  @collective{none} */
enum status server_log_try(const char *path);
/** Append the rows of every server k, rank `first` + k of the group, and drop them. Rank 0 writes.
 *  @errors E_IO on rank 0, E_COMM, E_TIMEOUT  @collective{group} */
enum status server_log_append(struct server_log *, const struct group *, int first, const char *path);
/** Read a file. @errors E_IO, E_FORMAT  @collective{none} */
enum status server_log_read(struct server_log *, const char *path, int n_servers, int n_workers);
/* Do all ranks meet (server_loop.c) at the beginning of this clock? */
typedef bool server_meets(const void *self, int64_t clock);
/** Check that a run of n_clocks per worker can follow this record. Every server needs each worker's clocks once and in
 *  order. The versions must exist in time and include the worker's own last gradient. Pure.
 *  @errors E_CONFIG  @collective{none} */
enum status server_log_check(const struct server_log *, int64_t n_clocks, server_meets *, const void *self);
