/* Shared by the tests of asynchronous servers: a plan, and a run of CLOCKS clocks. */
#pragma once

#include "dp_variants/server/server.h"
#include "lib/base/clock.h"
#include "lib/comm/comm_request.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>

enum { CLOCKS = 6, MAX_SERVERS = 2, MAX_WORKERS = 4, SAMPLES = 4 };  /* SAMPLES: of a worker in a clock */

/* fp64; no dropout, whose masks depend on a sample's place in the batch. */
static inline struct plan loop_plan(int servers, enum server_where where, int mode) {
    struct plan p = parity_plan();
    int workers = comm_world_size() - (where == SERVER_OWN ? servers : 0);
    p.layers = 2;
    model_options(&p)->dropout = 0;
    p.clip = 0;
    p.steps = CLOCKS;
    p.mesh.dp = comm_world_size();
    p.global_batch = workers * SAMPLES, p.micro_batch = SAMPLES;
    server_options(&p)->servers = servers;
    server_options(&p)->where = where;
    server_options(&p)->mode = mode;
    return p;
}

/** The most servers that this world allows. With one rank, none is on a rank of its own. */
static inline int most_servers(enum server_where where) {
    int n = comm_world_size() - (where == SERVER_OWN);
    return n < MAX_SERVERS ? n : MAX_SERVERS;
}

/** The same path on all ranks. @collective{world} */
static inline void shared_path(const char *name, char path[OPTION_TEXT_MAX]) {
    snprintf(path, OPTION_TEXT_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, OPTION_TEXT_MAX, UINT8, 0);
}

static inline enum status open_loop(struct run *r, struct plan p, int64_t flush_at) {
    TRY(layout_open(r, p, WATCH_LIFETIMES));
    r->flush_at = flush_at;
    return OK;
}

/** Run CLOCKS clocks. The last worker is slow, and progresses messages meanwhile. @collective{world} */
static inline enum status run_clocks(struct run *r, struct plan p, double slow_s) {
    TRY(open_loop(r, p, CLOCKS));
    for (int i = 0; i < CLOCKS; i++) {
        double until = clock_s() + (comm_world_rank() == (int)r->plan.workers - 1 ? slow_s : 0);
        while (clock_s() < until) comm_progress();
        TRY(run_step(r));
    }
    return OK;
}
