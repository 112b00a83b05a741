/* Servers that wait for all (sync), in the run's own step. See server_sync.c. */
#ifndef TRIVIUM_SERVER_SERVER_SYNC_H
#define TRIVIUM_SERVER_SERVER_SYNC_H

#include "lib/run/technique.h"

struct server_sync;

/** What a step exchanges. Pure. @errors none  @collective{none} */
enum status server_sync_cost(const struct plan *, const struct program *, struct bill *);
/** Subscribe to the run's events. @errors E_MEMORY  @collective{none} */
enum status server_sync_create(struct run *, struct server_sync **);
void server_sync_destroy(struct server_sync **);   /* NULL is fine */

#endif
