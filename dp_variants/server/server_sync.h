/* Servers that wait for all (sync), in the run's own step. See server_sync.c. */
#pragma once

#include "lib/comm/comm_request.h"
#include "lib/run/technique.h"

struct server_sync {
    struct comm_request *requests;   /* [params][of_param]: with each server, or each worker */
    int of_param;
    char *room;                      /* on a server's own rank: a part from every worker but the first */
    int64_t slot_bytes;              /* from the begin of a part to the next */
};

/** Bill the exchanges of a step. Pure. @errors none  @collective{none} */
enum status server_sync_cost(const struct plan *, const struct program *, struct bill *);
/** Subscribe to the run's events. @errors E_MEMORY  @collective{none} */
enum status server_sync_create(struct run *, struct server_sync **);
void server_sync_destroy(struct server_sync **);   /* NULL is fine */

/* ---- server_alone.c: a server on a rank of its own ---- */
/** Bill the server's messages and room. Pure. @errors none  @collective{none} */
enum status server_alone_cost(const struct plan *, const struct program *, struct bill *);
/** Take the room, and subscribe. @errors E_MEMORY, E_INTERNAL  @collective{none} */
enum status server_alone_create(struct run *, struct server_sync *);
