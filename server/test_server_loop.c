/* ranks: 1 2 4  device: cpu
 *
 * Workers and servers that do not wait for all. What such a run computes depends on who came first, so it is held
 * against its own record: one process computes every gradient again from the weights that it was of, and has the same
 * bits. And a run can be had again, from its record, or from an order made by hand: the delayed-gradient loop
 * w_{u+1} = AdamW(w_u, g(w_{u - tau})). Bytes, memory, the bound, and where ranks meet. fp64, no dropout (whose masks
 * depend on a sample's place in the batch). */
#include "driver/recipe.h"
#include "lib/base/clock.h"
#include "lib/base/integer.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/comm_request.h"
#include "lib/ops/adamw.h"
#include "server/server.h"
#include "server/server_log.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CLOCKS = 6, MAX_SERVERS = 2, MAX_UPDATES = 4 * CLOCKS };

static struct plan loop_plan(int servers, int mode) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.dropout = 0;
    p.clip = 0;
    p.steps = CLOCKS;
    p.mesh.dp = comm_world_size();
    p.micro_batch = p.global_batch / p.mesh.dp;
    server_options(&p)->servers = servers;
    server_options(&p)->mode = mode;
    return p;
}

static void shared_path(const char *name, char path[OPTION_TEXT_MAX]) {
    snprintf(path, OPTION_TEXT_MAX, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, OPTION_TEXT_MAX, UINT8, 0);
}

static enum status open_run(struct run *r, struct plan p, int64_t flush_at) {
    memset(r, 0, sizeof *r);
    TRY(plan_settle(&p, comm_world_size()));
    TRY(run_create(r, &train_recipe, &p, WATCH_LIFETIMES));
    r->flush_at = flush_at;
    return layout_use_demo(r);
}

/* A slow rank looks at its mail while it is slow. */
static void dawdle(double seconds) {
    for (double until = clock_s() + seconds; clock_s() < until;) comm_progress();
}

static enum status run_clocks(struct run *r, struct plan p, double slow_s) {
    TRY(open_run(r, p, CLOCKS));
    for (int i = 0; i < CLOCKS; i++) {
        if (comm_world_rank() == comm_world_size() - 1) dawdle(slow_s);
        TRY(run_step(r));
    }
    return OK;
}

/* ---- one process that does the same ---- */
/* past[k][v]: the whole model's elements, of which those of server k are as in its version v. */
struct replay {
    struct run run;
    int n_servers, n_workers, n_elements;
    int64_t version[MAX_SERVERS];
    double *past[MAX_SERVERS][MAX_UPDATES + 1], *gradient[4][CLOCKS];
};

typedef void visit_part(struct replay *, const struct param *, struct server_part, double *elements, void *self);

static void each_part(struct replay *x, int server, visit_part *visit, double *elements, void *self) {
    for (int i = 0, at = 0; i < x->run.program.n_params; i++) {
        const struct param *w = &x->run.program.params[i];
        int64_t n = type_n(&w->type);
        struct server_part part = server < 0 ? (struct server_part){0, n} : server_part(n, server, x->n_servers);
        visit(x, w, part, elements + at, self);
        at += (int)n;
    }
}

static void weight_to(struct replay *x, const struct param *w, struct server_part part, double *to, void *self) {
    (void)x, (void)self;
    memcpy(to + part.first, (double *)w->weight + part.first, 8 * (size_t)part.n);
}
static void weight_from(struct replay *x, const struct param *w, struct server_part part, double *from, void *self) {
    (void)x, (void)self;
    memcpy((double *)w->weight + part.first, from + part.first, 8 * (size_t)part.n);
}
static void grad_to(struct replay *x, const struct param *w, struct server_part part, double *to, void *self) {
    (void)x, (void)self;
    memcpy(to + part.first, (double *)w->grad + part.first, 8 * (size_t)part.n);
}

struct update { const double *gradient; struct adamw adamw; enum status status; };
static void update_part(struct replay *x, const struct param *w, struct server_part part, double *weight, void *self) {
    struct update *u = self;
    (void)x;
    struct adamw_elements e = {part.n, weight + part.first, FP64, u->gradient + part.first, FP64,
                               (double *)w->moment1 + part.first, (double *)w->moment2 + part.first, NULL, w->decay};
    if (u->status == OK) u->status = adamw_update(device_cpu(), &u->adamw, &e, 1);
    u->gradient += type_n(&w->type);
}

static enum status replay_init(struct replay *x, struct plan p) {
    memset(x, 0, sizeof *x);
    x->n_servers = (int)server_options(&p)->servers;
    x->n_workers = comm_world_size();
    server_options(&p)->servers = server_options(&p)->mode = server_options(&p)->staleness = 0;
    server_options(&p)->record[0] = server_options(&p)->order[0] = 0;
    p.mesh.dp = 1;
    p.global_batch = p.micro_batch;
    TRY(plan_settle(&p, 1));
    TRY(run_create(&x->run, &train_recipe, &p, WATCH_NOTHING));
    TRY(layout_use_demo(&x->run));
    for (int i = 0; i < x->run.program.n_params; i++) x->n_elements += (int)type_n(&x->run.program.params[i].type);
    for (int k = 0; k < x->n_servers; k++) {
        x->past[k][0] = malloc(8 * (size_t)x->n_elements);
        each_part(x, -1, weight_to, x->past[k][0], NULL);
    }
    return OK;
}

static void replay_fini(struct replay *x) {
    for (int k = 0; k < MAX_SERVERS; k++)
        for (int v = 0; v <= MAX_UPDATES; v++) free(x->past[k][v]);
    for (int w = 0; w < 4; w++)
        for (int c = 0; c < CLOCKS; c++) free(x->gradient[w][c]);
    run_destroy(&x->run);
}

/* g of a worker's clock, with shard k of version versions[k]; once. */
static enum status compute_gradient(struct replay *x, int worker, int64_t clock, const int64_t *versions) {
    struct run *r = &x->run;
    double **g = &x->gradient[worker][clock];
    if (*g) return OK;
    *g = malloc(8 * (size_t)x->n_elements);
    for (int k = 0; k < x->n_servers; k++) each_part(x, k, weight_from, x->past[k][versions[k]], NULL);
    r->n_step = clock;
    r->exec.n_step = (uint64_t)clock;
    run_go_on_at_sample(r, (clock * x->n_workers + worker) * r->plan.global_batch);
    TRY(exec_run(&r->exec, &r->schedule, true));
    each_part(x, -1, grad_to, *g, NULL);
    return OK;
}

static enum status apply_update(struct replay *x, int k, int worker, int64_t clock) {
    const struct plan *p = &x->run.plan;
    const double one = 1;
    int64_t v = x->version[k]++;
    struct update u = {x->gradient[worker][clock],
                       {.lr = plan_lr(p, clock), .beta1 = p->beta1, .beta2 = p->beta2, .eps = p->eps,
                        .weight_decay = p->weight_decay, .grad_multiplier = &one, .step = v + 1}, OK};
    x->past[k][v + 1] = malloc(8 * (size_t)x->n_elements);
    memcpy(x->past[k][v + 1], x->past[k][v], 8 * (size_t)x->n_elements);
    each_part(x, k, update_part, x->past[k][v + 1], &u);
    return u.status;
}

static bool there(const struct replay *x, const int64_t *versions) {
    for (int k = 0; k < x->n_servers; k++)
        if (versions[k] > x->version[k]) return false;
    return true;
}

/* Every server's rows in their order, as far as the weights are there that they were computed with. */
static enum status replay_log(struct replay *x, const struct server_log *log) {
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < x->n_servers; k++)
            while (x->version[k] < log->n[k]) {
                const int64_t *row = server_log_row(log, k, (int)x->version[k]);
                if (!there(x, &row[LOG_VERSION])) break;
                TRY(compute_gradient(x, (int)row[LOG_WORKER], row[LOG_CLOCK], &row[LOG_VERSION]));
                TRY(apply_update(x, k, (int)row[LOG_WORKER], row[LOG_CLOCK]));
                moved = true;
            }
    }
    for (int k = 0; k < x->n_servers; k++)
        if (x->version[k] != CLOCKS * x->n_workers)
            return FAIL(E_INTERNAL, "server %d stops at version %d", k, (int)x->version[k]);
    return OK;
}

/* To the bit, on this rank. */
static bool has_weights_of(const struct run *r, struct replay *x) {
    double *mine = malloc(8 * (size_t)x->n_elements);
    bool same = true;
    for (int k = 0; k < x->n_servers; k++) each_part(x, k, weight_from, x->past[k][x->version[k]], NULL);
    each_part(x, -1, weight_to, mine, NULL);
    for (int i = 0, at = 0; i < r->program.n_params; i++) {
        size_t n = (size_t)type_n(&r->program.params[i].type);
        same &= !memcmp(mine + at, r->program.params[i].weight, 8 * n);
        at += (int)n;
    }
    free(mine);
    return same;
}

static bool is_its_records_replay(const struct run *r, const struct plan *p, const char *path) {
    struct replay x;
    struct server_log log = {.n_servers = 0};
    enum status status = replay_init(&x, *p);
    if (status == OK) status = server_log_read(&log, path, x.n_servers, x.n_workers);
    if (status == OK) status = replay_log(&x, &log);
    bool ok = status == OK && has_weights_of(r, &x);
    replay_fini(&x);
    server_log_fini(&log);
    status_report();
    return ok;
}

/* ---- replay ---- */
static bool runs_and_replays(int servers, int mode, int64_t staleness, double slow_s, const char *name) {
    struct run r;
    struct difference d = {0};
    struct plan p = loop_plan(servers, mode);
    server_options(&p)->staleness = staleness;
    shared_path(name, server_options(&p)->record);
    enum status status = run_clocks(&r, p, slow_s);
    bool ok = agree_all(status == OK);
    if (ok) ok = layout_compare_bytes(&r, CLOCKS, &d) == OK && d.memory == 0 && d.wire == 0;
    if (!agree_all(ok)) fprintf(stderr, "%s: %s, memory %g B wire %g\n", name, status_name(status), d.memory, d.wire);
    ok = agree_all(ok) && agree_all(is_its_records_replay(&r, &p, server_options(&p)->record));
    run_destroy(&r);
    status_report();
    return ok;
}

static int most_servers(void) { return comm_world_size() < MAX_SERVERS ? comm_world_size() : MAX_SERVERS; }

static void test_server_replay_is_the_run_to_the_bit(void **state) {
    (void)state;
    bool ok = true;
    for (int servers = 1; servers <= most_servers(); servers++) {
        ok = ok && runs_and_replays(servers, SERVER_ASYNC, 0, 0.01, "async");
        ok = ok && runs_and_replays(servers, SERVER_SSP, 0, 0, "ssp0");
        ok = ok && runs_and_replays(servers, SERVER_SSP, 2, 0.01, "ssp2");
    }
    assert_true(ok);
}

/* ---- an order ---- */
/* In turn, each computing with what it got after its own last push: tau = n - 1 after the first clock. */
static void write_turns(const char *path, int servers, int workers) {
    FILE *f = comm_is_rank_0() ? fopen(path, "w") : NULL;
    for (int k = 0; f && k < servers; k++)
        for (int u = 0; u < workers * CLOCKS; u++) {
            fprintf(f, "%d %d %d 0", k, u % workers, u / workers);
            for (int j = 0; j < servers; j++) fprintf(f, " %d", u < workers ? 0 : u - workers + 1);
            fprintf(f, "\n");
        }
    if (f) fclose(f);
    (void)comm_barrier(group_world());
}

/* The loop as papers write it, knowing nothing of records. */
static enum status delayed_gradients(struct replay *x) {
    int n = x->n_workers;
    for (int u = 0; u < n * CLOCKS; u++) {
        int64_t versions[MAX_SERVERS];
        for (int k = 0; k < x->n_servers; k++) versions[k] = max64(0, u - (n - 1)) * (u >= n);
        TRY(compute_gradient(x, u % n, u / n, versions));
        for (int k = 0; k < x->n_servers; k++) TRY(apply_update(x, k, u % n, u / n));
    }
    return OK;
}

static bool equals_the_loop(int servers, int mode) {
    struct run r;
    struct replay x;
    struct plan p = loop_plan(servers, mode);
    shared_path("turns", server_options(&p)->order);
    write_turns(server_options(&p)->order, servers, comm_world_size());
    bool ok = agree_all(run_clocks(&r, p, 0.01) == OK);
    ok = agree_all(replay_init(&x, p) == OK && delayed_gradients(&x) == OK) && ok;
    if (ok) ok = agree_all(has_weights_of(&r, &x));
    replay_fini(&x);
    run_destroy(&r);
    status_report();
    return ok;
}

static void test_server_order_is_the_delayed_gradient_loop(void **state) {
    (void)state;
    bool ok = true;
    for (int servers = 1; servers <= most_servers(); servers++)
        for (int mode = SERVER_SSP; mode <= SERVER_ASYNC && ok; mode++) ok = equals_the_loop(servers, mode);
    assert_true(ok);
}

/* Two files of the same rows, but for the seconds. */
static bool same_logs(const char *a, const char *b, int servers) {
    struct server_log one, two;
    size_t bytes = sizeof(int64_t) * (size_t)(LOG_VERSION + servers) * CLOCKS * (size_t)comm_world_size();
    bool ok = server_log_read(&one, a, servers, comm_world_size()) == OK;
    ok &= server_log_read(&two, b, servers, comm_world_size()) == OK;
    for (int k = 0; k < servers && ok; k++)
        ok = one.n[k] == CLOCKS * comm_world_size() && one.n[k] == two.n[k] && !memcmp(one.cell[k], two.cell[k], bytes);
    server_log_fini(&one);
    server_log_fini(&two);
    return ok;
}

static void test_a_run_can_be_had_again_from_its_record(void **state) {
    (void)state;
    struct plan p = loop_plan(most_servers(), SERVER_ASYNC), again;
    struct run r[2];
    shared_path("first", server_options(&p)->record);
    again = p;
    shared_path("first", server_options(&again)->order);
    shared_path("second", server_options(&again)->record);
    bool ok = agree_all(run_clocks(&r[0], p, 0.02) == OK);
    ok = agree_all(ok && run_clocks(&r[1], again, 0) == OK);
    for (int i = 0; ok && i < r[0].program.n_params; i++)
        ok = !memcmp(r[0].program.params[i].weight, r[1].program.params[i].weight,
                     (size_t)type_bytes(&r[0].program.params[i].type));
    ok = agree_all(ok && same_logs(server_options(&p)->record, server_options(&again)->record, most_servers()));
    run_destroy(&r[1]);
    run_destroy(&r[0]);
    status_report();
    assert_true(ok);
}

/* ---- the bound ---- */
static void test_server_allows_what_is_at_most_the_staleness_ahead(void **state) {
    (void)state;
    for (int64_t s = 0; s < 4; s++)
        for (int64_t ahead = -2; ahead < 8; ahead++) assert_true(server_allows(5 + ahead, 5, s) == (ahead <= s));
}

/* How far ahead of the slowest workers were when they got weights, by the record of server 0. */
static int64_t most_ahead(const char *path, int servers) {
    struct server_log log;
    int64_t most = -1;
    if (server_log_read(&log, path, servers, comm_world_size()) != OK) return -1;
    for (int i = 0; i < log.n[0]; i++) {
        const int64_t *row = server_log_row(&log, 0, i);
        int64_t finished[4] = {0}, least = INT64_MAX;
        for (int j = 0; j < row[LOG_VERSION]; j++) finished[server_log_row(&log, 0, j)[LOG_WORKER]]++;
        for (int w = 0; w < log.n_workers; w++) least = min64(least, finished[w]);
        most = max64(most, row[LOG_CLOCK] - least);
    }
    server_log_fini(&log);
    return most;
}

/* The last rank begins when rank 0 has gone ahead by so many clocks. */
static enum status run_ahead(struct run *r, struct plan p, int64_t ahead) {
    int32_t word = 1;
    struct comm_request request = {0};
    int last = comm_world_size() - 1;
    TRY(open_run(r, p, CLOCKS));
    if (comm_world_rank() == last) TRY(comm_recv_start(group_world(), &word, 1, INT32, 0, 1, &request));
    TRY(comm_wait(&request));
    for (int i = 0; i < CLOCKS; i++) {
        TRY(run_step(r));
        if (comm_is_rank_0() && i == ahead) TRY(comm_send_start(group_world(), &word, 1, INT32, last, 1, &request));
    }
    return comm_wait(&request);
}

static int64_t ahead_under(int mode, int64_t staleness, int64_t ahead) {
    struct run r;
    struct plan p = loop_plan(1, mode);
    server_options(&p)->staleness = staleness;
    shared_path("ahead", server_options(&p)->record);
    bool ok = agree_all(run_ahead(&r, p, ahead) == OK);
    int64_t most = ok ? most_ahead(server_options(&p)->record, 1) : -1;
    run_destroy(&r);
    status_report();
    return (int64_t)agree_max((double)most);
}

static void test_workers_are_as_far_ahead_as_the_bound_lets_them(void **state) {
    (void)state;
    if (comm_world_size() == 1) skip();
    for (int64_t s = 0; s < 3; s++) assert_int_equal(ahead_under(SERVER_SSP, s, s), s);
    assert_true(ahead_under(SERVER_ASYNC, 0, CLOCKS - 2) >= CLOCKS - 2);
}

/* ---- meeting ---- */
static bool same_everywhere(const struct run *r) {
    bool same = true;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        char *copy = malloc((size_t)type_bytes(&w->type));
        memcpy(copy, w->weight, (size_t)type_bytes(&w->type));
        same &= comm_broadcast(group_world(), copy, type_bytes(&w->type), UINT8, 0) == OK;
        same &= !memcmp(copy, w->weight, (size_t)type_bytes(&w->type));
        free(copy);
    }
    return agree_all(same);
}

/* Two clocks, a meeting, a save; three more, and the end. What was saved goes on in another layout. */
static void test_ranks_meet_with_the_same_weights_and_may_save(void **state) {
    (void)state;
    char folder[OPTION_TEXT_MAX], step[CHECKPOINT_PATH_MAX];
    struct run r;
    double loss[2] = {0, 1};
    shared_path("met", folder);
    bool ok = agree_all(open_run(&r, loop_plan(most_servers(), SERVER_ASYNC), 2) == OK);
    ok = ok && agree_all(run_step(&r) == OK);
    ok = ok && run_evaluate(&r, 1, &loss[0]) == E_INTERNAL && checkpoint_save(&r, folder, 0) == E_INTERNAL;
    status_clear();
    ok = agree_all(ok) && agree_all(run_step(&r) == OK) && same_everywhere(&r) && r.n_update == 2;
    ok = ok && agree_all(checkpoint_save(&r, folder, 0) == OK && run_evaluate(&r, 1, &loss[0]) == OK);
    r.flush_at = 5;
    for (int i = 0; i < 3 && ok; i++) ok = run_step(&r) == OK;
    ok = agree_all(ok) && same_everywhere(&r) && r.n_update == 5;
    run_destroy(&r);
    struct plan dp = loop_plan(0, SERVER_SYNC);
    ok = ok && agree_all(open_run(&r, dp, 0) == OK && checkpoint_resolve(folder, step) == OK);
    ok = ok && agree_all(checkpoint_load(&r, step, CHECKPOINT_ALL) == OK && run_evaluate(&r, 1, &loss[1]) == OK);
    run_destroy(&r);
    status_report();
    assert_true(ok && loss[0] == loss[1]);
}

/* One worker waits for nobody: the serial run, to the bit. */
static void test_one_worker_is_the_serial_run(void **state) {
    (void)state;
    if (comm_world_size() > 1) skip();
    struct run r[2];
    for (int i = 0; i < 2; i++) assert_ok(run_clocks(&r[i], loop_plan(i, i ? SERVER_ASYNC : SERVER_SYNC), 0));
    assert_true(r[0].loss == r[1].loss && r[0].grad_norm == r[1].grad_norm);
    for (int i = 0; i < r[0].program.n_params; i++)
        assert_memory_equal(r[0].program.params[i].weight, r[1].program.params[i].weight,
                            (size_t)type_bytes(&r[0].program.params[i].type));
    run_destroy(&r[0]);
    run_destroy(&r[1]);
}

TESTS(unit_test(test_server_replay_is_the_run_to_the_bit), unit_test(test_server_order_is_the_delayed_gradient_loop),
      unit_test(test_a_run_can_be_had_again_from_its_record),
      unit_test(test_server_allows_what_is_at_most_the_staleness_ahead),
      unit_test(test_workers_are_as_far_ahead_as_the_bound_lets_them),
      unit_test(test_ranks_meet_with_the_same_weights_and_may_save), unit_test(test_one_worker_is_the_serial_run))
