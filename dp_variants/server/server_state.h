/* The state of an asynchronous run: its step (server_loop.c), a worker (server_work.c) and a server (server_serve.c)
 * share it. Private to these files. */
#pragma once

#include "dp_variants/server/server_log.h"
#include "dp_variants/server/server_loop.h"
#include "dp_variants/server/server_shard.h"
#include "lib/run/run.h"

/* A server's view of a worker: awaits its push; has the push; owes it weights; sends them; all clocks are done. */
enum stage { AWAITED, ARRIVED, OWED, ANSWERED, MET };
struct worker { enum stage stage; int64_t finished; char *message; struct comm_request request; };
struct shard { char *message; struct comm_request request; };        /* a worker's message to or from server k */

struct server_loop {
    struct run *run;
    struct server_ranks ranks;
    int rank, server;                    /* along AXIS_DP; the number of the server on it, -1: none */
    bool works;
    int64_t staleness, first_clock, meeting;   /* the clocks of the last and of the next meeting */
    /* the worker */
    struct shard *shards;                /* [servers] */
    int64_t *versions;                   /* of this worker's weights, by server */
    /* the server */
    struct worker *workers;              /* [workers] */
    char *weights;                       /* the server's copy of its shard; NULL: the params have it */
    int64_t version;
    int last;                            /* the worker of the last applied push; the next in turn comes first */
    enum status failed;
    struct server_log log, order;
    struct optimizer_elements *elements;     /* [params] */
    double born_s;
};

/* A message's header: the clock, and after it the versions. */
static inline int64_t *server_header(const struct server_loop *x, char *message, int k) {
    return (int64_t *)(message + server_header_at(&x->run->program, k, x->ranks.n_servers));
}

enum { TAG_PUSH = 1, TAG_PULL = 2 };
/** Start a message of server k, to a rank along AXIS_DP, or from one. A rank's own message stays in its memory.
 *  @errors E_COMM  @collective{none} */
enum status server_send(const struct server_loop *, int k, const char *message, int to, int tag, struct comm_request *);
enum status server_receive(const struct server_loop *, int k, char *message, int from, int tag, struct comm_request *);

/* ---- server_work.c ---- */
/** Send each server its shard of this clock's gradient. @errors E_COMM  @collective{none} */
enum status server_push(struct server_loop *, int64_t clock);
/** Wait for each server's weights. @errors E_COMM, E_TIMEOUT, and those of a server on this rank
 *  @collective{none} */
enum status server_pull(struct server_loop *);
/** A worker's clock: forward and backward of its own samples, and the step's record. @errors those of ops; E_NUMERIC:
 *  not finite  @collective{none} */
enum status server_compute(struct server_loop *, struct step_record *);

/* ---- server_serve.c ---- */
/** Wait for a worker's next push. @errors E_COMM  @collective{none} */
enum status server_await(struct server_loop *, int worker);
/** The fewest clocks that a worker has finished. Pure. @collective{none} */
int64_t server_slowest(const struct server_loop *);
/** On a rank that only serves: serve until every worker has finished this clock.  @errors as server_serve, E_TIMEOUT
 *  @collective{none} */
enum status server_serve_clock(struct server_loop *, int64_t clock);
/** Apply the pushes that have arrived, and send weights to the workers that may have them. Never waits. loop: a
 *  struct server_loop.
 *  @errors E_COMM, E_INTERNAL  @collective{none} */
enum status server_serve(void *loop);
