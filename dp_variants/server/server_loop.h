/* A step of workers and servers that do not wait for all (ssp, async). See server_loop.c. */
#pragma once

#include "lib/run/technique.h"

struct server_loop;

/** Take memory, read --server-order, and set the run's loop. @errors E_MEMORY, E_IO, E_FORMAT, E_CONFIG
 *  @collective{none} */
enum status server_loop_create(struct run *, struct server_loop **);
void server_loop_destroy(struct server_loop **);   /* NULL is fine */
