/* ranks: 1 2 4  device: cpu
 *
 * Numbers of asynchronous servers depend on the order of arrival, so a run is compared with its own record: one process
 * computes every gradient again, from the recorded version of the weights, and must have the same bits. A run can also
 * follow a record, or an order made by hand: the delayed-gradient loop w_{u+1} = AdamW(w_u, g(w_{u - tau})). Bytes and
 * memory are the planned ones. */
#include "dp_variants/server/test_server_loop.h"

#include "dp_variants/server/server_log.h"
#include "driver/recipe.h"
#include "lib/base/integer.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_UPDATES = MAX_WORKERS * CLOCKS };

/* ---- one process that replays a record ---- */
/* past[k][v]: all elements of the model; those of server k are in its version v. */
struct replay {
    struct run run;
    int n_servers, n_workers, n_elements;
    int64_t version[MAX_SERVERS];
    double *past[MAX_SERVERS][MAX_UPDATES + 1], *gradient[MAX_WORKERS][CLOCKS];
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

struct update { const double *gradient; struct optimizer_settings settings; enum status status; };
static void update_part(struct replay *x, const struct param *w, struct server_part part, double *weight, void *self) {
    struct update *u = self;
    struct optimizer_elements e = {part.n, weight + part.first, FP64, u->gradient + part.first, FP64, {NULL}, NULL,
                                   .decay = w->decay};
    for (int i = 0; i < x->run.program.optimizer->n_states; i++) e.state[i] = (double *)param_state(w, i) + part.first;
    if (u->status == OK) u->status = optimizer_update(x->run.program.optimizer, device_cpu(), &u->settings, &e, 1);
    u->gradient += type_n(&w->type);
}

static enum status replay_init(struct replay *x, struct plan p) {
    memset(x, 0, sizeof *x);
    x->n_servers = (int)server_options(&p)->servers;
    x->n_workers = (int)p.global_batch / SAMPLES;
    server_options(&p)->servers = server_options(&p)->mode = server_options(&p)->staleness = 0;
    server_options(&p)->where = SERVER_SHARED;
    server_options(&p)->record[0] = server_options(&p)->order[0] = 0;
    p.mesh.dp = 1;
    p.global_batch = SAMPLES;
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
    for (int w = 0; w < MAX_WORKERS; w++)
        for (int c = 0; c < CLOCKS; c++) free(x->gradient[w][c]);
    run_destroy(&x->run);
}

/* Compute g of a worker's clock, once, from shard k in version versions[k]. */
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
                       optim_settings(p, plan_lr(p, clock), v + 1, &one), OK};
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

/* Replay every server's rows in order, each as soon as the weights of its gradient exist. */
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

/* Does this rank have the replay's weights, to the bit? */
static bool has_weights_of(const struct run *r, struct replay *x) {
    bool same = true;
    for (int k = 0; k < x->n_servers; k++) each_part(x, k, weight_from, x->past[k][x->version[k]], NULL);
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        bool own = w->weight_residence == RESIDENT_OWN;
        int64_t n = own ? w->own_n : type_n(&w->type);
        same &= !memcmp((double *)x->run.program.params[i].weight + (own ? w->own_first : 0), w->weight, 8 * (size_t)n);
    }
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
struct trial { enum server_where where; int mode; int64_t staleness; double slow_s; };

static bool runs_and_replays(int servers, struct trial t) {
    struct run r;
    struct difference d = {0};
    struct plan p = loop_plan(servers, t.where, t.mode);
    server_options(&p)->staleness = t.staleness;
    shared_path("record", server_options(&p)->record);
    enum status status = run_clocks(&r, p, t.slow_s);
    bool ok = agree_all(status == OK);
    if (ok) ok = layout_compare_bytes(&r, CLOCKS, &d) == OK && d.memory == 0 && d.wire == 0;
    if (!agree_all(ok)) fprintf(stderr, "%s, memory %g B wire %g\n", status_name(status), d.memory, d.wire);
    ok = agree_all(ok) && agree_all(is_its_records_replay(&r, &p, server_options(&p)->record));
    run_destroy(&r);
    status_report();
    return ok;
}

static const struct trial TRIALS[] = {
    {SERVER_SHARED, SERVER_ASYNC, 0, 0.01}, {SERVER_SHARED, SERVER_SSP, 0, 0}, {SERVER_SHARED, SERVER_SSP, 2, 0.01},
    {SERVER_OWN, SERVER_ASYNC, 0, 0.01}, {SERVER_OWN, SERVER_SSP, 0, 0}, {SERVER_OWN, SERVER_SSP, 2, 0.01}};

TEST(test_server_replay_is_the_run_to_the_bit) {
    bool ok = true;
    for (size_t i = 0; i < sizeof TRIALS / sizeof *TRIALS; i++)
        for (int servers = 1; servers <= most_servers(TRIALS[i].where); servers++)
            ok = ok && runs_and_replays(servers, TRIALS[i]);
    assert_true(ok);
}

/* ---- an order ---- */
/* Workers push in turn, each with the weights that followed its own last push: tau = n - 1 after the first clock. */
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

/* The loop as papers write it, without a record. */
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

static bool equals_the_loop(int servers, enum server_where where, int mode) {
    struct run r;
    struct replay x;
    struct plan p = loop_plan(servers, where, mode);
    shared_path("turns", server_options(&p)->order);
    write_turns(server_options(&p)->order, servers, (int)p.global_batch / SAMPLES);
    bool ok = agree_all(run_clocks(&r, p, 0.01) == OK);
    ok = agree_all(replay_init(&x, p) == OK && delayed_gradients(&x) == OK) && ok;
    if (ok) ok = agree_all(has_weights_of(&r, &x));
    replay_fini(&x);
    run_destroy(&r);
    status_report();
    return ok;
}

TEST(test_server_order_is_the_delayed_gradient_loop) {
    bool ok = true;
    for (enum server_where where = SERVER_SHARED; where <= SERVER_OWN; where++)
        for (int servers = 1; servers <= most_servers(where); servers++)
            for (int mode = SERVER_SSP; mode <= SERVER_ASYNC && ok; mode++) ok = equals_the_loop(servers, where, mode);
    assert_true(ok);
}

/* Do two files have the same rows, apart from the seconds? */
static bool same_logs(const char *a, const char *b, int servers, int workers) {
    struct server_log one, two;
    size_t bytes = sizeof(int64_t) * (size_t)(LOG_VERSION + servers) * CLOCKS * (size_t)workers;
    bool ok = server_log_read(&one, a, servers, workers) == OK;
    ok &= server_log_read(&two, b, servers, workers) == OK;
    for (int k = 0; k < servers && ok; k++)
        ok = one.n[k] == CLOCKS * workers && one.n[k] == two.n[k] && !memcmp(one.cell[k], two.cell[k], bytes);
    server_log_fini(&one);
    server_log_fini(&two);
    return ok;
}

static bool is_had_again(enum server_where where) {
    int servers = most_servers(where);
    struct plan p = loop_plan(servers, where, SERVER_ASYNC), again;
    struct run r[2];
    shared_path("first", server_options(&p)->record);
    again = p;
    shared_path("first", server_options(&again)->order);
    shared_path("second", server_options(&again)->record);
    bool ok = agree_all(run_clocks(&r[0], p, 0.02) == OK);
    ok = agree_all(ok && run_clocks(&r[1], again, 0) == OK);
    for (int i = 0; ok && i < r[0].program.n_params; i++) {
        const struct param *w = &r[0].program.params[i];
        ok = !memcmp(w->weight, r[1].program.params[i].weight, 8 * (size_t)param_resident_n(w, w->weight_residence));
    }
    ok = agree_all(ok && same_logs(server_options(&p)->record, server_options(&again)->record, servers,
                                   (int)p.global_batch / SAMPLES));
    run_destroy(&r[1]);
    run_destroy(&r[0]);
    status_report();
    return ok;
}

TEST(test_a_run_can_be_had_again_from_its_record) {
    assert_true(is_had_again(SERVER_SHARED));
    if (comm_world_size() > 1) assert_true(is_had_again(SERVER_OWN));
}

TESTS(unit_test(test_server_replay_is_the_run_to_the_bit), unit_test(test_server_order_is_the_delayed_gradient_loop),
      unit_test(test_a_run_can_be_had_again_from_its_record))
