/* The gradients that servers have applied, in order: a record that a later run can follow. A line of the file:
 *
 *   server worker clock seconds version0 version1 ...
 *
 * server applied the gradient of worker's clock (0, 1, ... its step); it was computed with shard k in version_k, which
 * counts the gradients that server k had applied. Lines of one server are in the order of applying. Seconds: since the
 * run was made, for pictures; they are not read again. */
#pragma once

#include "lib/base/status.h"
#include "lib/comm/comm.h"

enum { LOG_WORKER, LOG_CLOCK, LOG_MICROSECONDS, LOG_VERSION };       /* cells of a row, and more versions */
/* Server k has n[k] rows. begun: the file has a header. All zero: an empty log. */
struct server_log { int n_servers, n_workers, *n; int64_t **cell; bool begun; };

/** An empty log for n_servers and n_workers. */
void server_log_init(struct server_log *, int n_servers, int n_workers);
void server_log_fini(struct server_log *);
/** Row i of a server, counted from 0; and a new row, for the caller to fill in. */
int64_t *server_log_row(const struct server_log *, int server, int i);
int64_t *server_log_add(struct server_log *, int server);
/** Where a server has the row of this worker and clock; -1: nowhere. */
int server_log_find(const struct server_log *, int server, int64_t worker, int64_t clock);

/** Can the file be written? An old file is not overwritten before there are rows. @errors E_IO  @collective{none} */
enum status server_log_try(const char *path);
/** Append the rows of every server k, rank `first` + k of the group, and drop them. Rank 0 writes.
 *  @errors E_IO on rank 0, E_COMM, E_TIMEOUT  @collective{group} */
enum status server_log_append(struct server_log *, const struct group *, int first, const char *path);
/** Read a file. @errors E_IO, E_FORMAT  @collective{none} */
enum status server_log_read(struct server_log *, const char *path, int n_servers, int n_workers);
/* Do all ranks wait for all at the beginning of this clock? */
typedef bool server_meets(const void *self, int64_t clock);
/** Can a run follow this record from its first step to its last, n_clocks of each worker? It needs each worker's clocks
 *  once and in order on every server, and versions that exist in time and have the worker's own last gradient. Pure.
 *  @errors E_CONFIG  @collective{none} */
enum status server_log_check(const struct server_log *, int64_t n_clocks, server_meets *, const void *self);
