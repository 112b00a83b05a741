/* A step of workers and servers that do not wait for all (ssp, async). See server_loop.c. */
#ifndef TRIVIUM_SERVER_SERVER_LOOP_H
#define TRIVIUM_SERVER_SERVER_LOOP_H

#include "lib/run/technique.h"

struct server_loop;

/** What such a run cannot do. Pure. @errors E_CONFIG  @collective{none} */
enum status server_loop_check(const struct plan *, const char *mode);
/** Messages and comm memory of a step. Pure. @errors none  @collective{none} */
enum status server_loop_cost(const struct plan *, const struct program *, struct bill *);
/** Take memory, read --server-order, and set the run's loop. @errors E_MEMORY, E_IO, E_FORMAT, E_CONFIG
 *  @collective{none} */
enum status server_loop_create(struct run *, struct server_loop **);
void server_loop_destroy(struct server_loop **);   /* NULL is fine */

#endif
