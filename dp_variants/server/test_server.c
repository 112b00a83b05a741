/* ranks: 1 2 4  device: cpu
 *
 * Servers that wait for all workers have the serial run's numbers in every layout. Tests also check owners, the bytes
 * that a server sends and gets, checkpoints, and the refusals of all modes. */
#include "dp_variants/server/server.h"
#include "dp_variants/server/server_log.h"
#include "dp_variants/server/test_server.h"
#include "dp_variants/server/test_server_loop.h"
#include "driver/recipe.h"
#include "driver/train/train_options.h"
#include "lib/base/integer.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/comm/comm_backend.h"
#include "lib/ops/codec.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct plan server_plan(int servers) {
    struct plan p = parity_plan();
    server_options(&p)->servers = servers;
    return p;
}

static struct plan replicas_plan(int servers) {
    struct plan p = server_plan(servers);
    p.layers = 2;
    p.mesh.dp = comm_world_size();
    p.micro_batch = p.global_batch / p.mesh.dp;
    return p;
}

/* ---- parts ---- */
TEST(test_server_parts_cover_every_element_once) {
    for (int64_t n = 0; n < 40; n++)
        for (int servers = 1; servers <= 9; servers++) {
            int64_t next = 0;
            for (int k = 0; k < servers; k++) {
                struct server_part part = server_part(n, k, servers);
                assert_int_equal(part.first, next);
                assert_true(part.n == n / servers || part.n == n / servers + 1);
                next += part.n;
            }
            assert_int_equal(next, n);
        }
}

TEST(test_servers_have_the_optimizer_between_them) {
    for (int servers = 1; servers <= 4; servers++) {
        int64_t own = 0, all = 0;
        struct plan p = replicas_plan(servers);
        p.mesh.dp = 4;
        p.micro_batch = 2;
        assert_ok(plan_settle(&p, 4));
        for (int rank = 0; rank < 4; rank++) {
            struct run r;
            int64_t mine = 0;
            assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
            for (int i = 0; i < r.program.n_params; i++) mine += r.program.params[i].own_n;
            for (int i = 0; i < r.program.n_params && rank == 0; i++) all += type_n(&r.program.params[i].type);
            int64_t states = r.memory.bytes[TIER_DEVICE][ROLE_OPTIM];
            assert_true(rank < servers ? states >= 16 * mine : states == 0);
            own += mine;
            run_destroy(&r);
        }
        assert_int_equal(own, all);
    }
}

/* ---- parity ---- */
struct tally { const struct reference *reference; int seen, right; };

static void try_layout(void *self, const struct plan *p) {
    struct tally *t = self;
    struct plan q = *p;
    if (p->micro_batch != 2 || (p->mesh.dp == 1 && comm_world_size() > 1) || pp_options(p)->split[0]) return;
    server_options(&q)->servers = 1 + t->seen % p->mesh.dp;
    t->seen++;
    t->right += layout_is_serial(&q, OK, t->reference);
}

TEST(test_servers_equal_serial_in_every_layout) {
    struct reference ref;
    struct plan serial = parity_plan(), plan = server_plan(1);
    struct tally t = {&ref, 0, 0};
    enum status status = reference_init(&ref, &serial);
    if (agree_all(status == OK)) layouts_each(&plan, comm_world_size(), try_layout, &t);
    reference_fini(&ref);
    assert_ok(status);
    assert_true(t.seen >= 2);
    assert_int_equal(t.right, t.seen);
}

/* ---- bytes of a run ---- */
/* Open a run with the algorithms that the plan prefers. They stay in force, so callers restore the settings. */
static enum status open_run(struct run *r, struct plan p) {
    TRY(plan_settle(&p, comm_world_size()));
    TRY(plan_use_comm(&p, false, 1));
    return layout_open(r, p, WATCH_NOTHING);
}

static double sent(const struct run *r, enum comm_op op) {
    const struct ledger_entry *e = &group_ledger(r->mesh.group[AXIS_DP])->entry[op];
    return e->sent[0] + e->sent[1];
}

/* Bytes of server k's elements, in fp64. */
static double shard_of(const struct run *r, int k, int servers) {
    int64_t n = 0;
    for (int i = 0; i < r->program.n_params; i++) n += server_part(type_n(&r->program.params[i].type), k, servers).n;
    return 8 * (double)n;
}

/* A server sends (n-1) S/P bytes of weights. A worker sends S/P bytes of gradients to each server on another rank. */
static bool sends_what_a_server_does(const struct run *r, int servers, int steps) {
    int me = comm_world_rank(), n = comm_world_size();
    double pushed = 0, answered = me < servers ? (n - 1) * shard_of(r, me, servers) : 0;
    for (int k = 0; k < servers; k++) pushed += k == me ? 0 : shard_of(r, k, servers);
    return sent(r, COMM_BROADCAST) == steps * answered && sent(r, COMM_REDUCE) == steps * pushed;
}

TEST(test_a_server_is_the_hot_spot) {
    const struct comm_settings before = *comm_settings_in_force();
    bool ok = true;
    for (int servers = 1; servers <= comm_world_size() && ok; servers++) {
        struct run r;
        enum status status = open_run(&r, replicas_plan(servers));
        for (int i = 0; i < 2 && status == OK; i++) status = run_step(&r);
        ok = agree_all(status == OK && sends_what_a_server_does(&r, servers, 2));
        run_destroy(&r);
    }
    comm_configure(&before);
    assert_true(ok);
}

/* ---- a checkpoint of servers loads in other layouts ---- */
static enum status train_from(struct run *r, int servers, const char *folder, bool save, double *loss) {
    TRY(open_run(r, replicas_plan(servers)));
    return go_on_from(r, folder, save, loss);
}

TEST(test_servers_checkpoint_is_loaded_by_other_numbers_of_them) {
    const struct comm_settings before = *comm_settings_in_force();
    char folder[CHECKPOINT_PATH_MAX];
    const int servers[] = {comm_world_size(), comm_world_size(), 1, 0};
    double loss[4] = {0};
    snprintf(folder, sizeof folder, "%s", test_path("servers"));
    bool ok = agree_all(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0) == OK);
    for (int i = 0; i < 4 && ok; i++) {
        struct run r;
        ok = agree_all(train_from(&r, servers[i], folder, i == 0, &loss[i]) == OK);
        run_destroy(&r);
        ok = ok && fabs(loss[i] / loss[0] - 1) < 1e-10;
    }
    comm_configure(&before);
    assert_true(agree_all(ok) && loss[1] == loss[0]);
}

/* ---- refusals ---- */
static struct plan with(int servers, int mode) {
    struct plan p = server_plan(servers);
    p.clip = 0;
    p.mesh.dp = 4;
    server_options(&p)->mode = mode;
    return p;
}
#define REFUSES(change, ...)                                                                                           \
    do {                                                                                                               \
        struct plan p = with(2, SERVER_ASYNC);                                                                         \
        struct server_options *o = server_options(&p);                                                                 \
        (void)o;                                                                                                       \
        change;                                                                                                        \
        assert_fails(technique_server.check(&p), E_CONFIG, __VA_ARGS__);                                               \
    } while (0)

TEST(test_servers_refuse_in_one_line) {
    for (int mode = SERVER_SYNC; mode <= SERVER_ASYNC; mode++) {
        struct plan p = with(4, mode);
        assert_ok(technique_server.check(&p));
    }
    REFUSES(o->servers = 0, "servers=0", "--servers 1");
    REFUSES(o->servers = 5, "servers=5", "dp=4", "use servers 4 or less, or dp 5");
    REFUSES(o->staleness = 3, "staleness=3", "server-mode=ssp", "async");
    REFUSES((o->mode = SERVER_SYNC, o->record[0] = 'x'), "server-record", "sync");
    REFUSES(p.sums = PLAN_SUMS_FIXED, "sums=fixed", "servers=2");
    REFUSES(p.clip = 1, "clip=1", "server-mode=async", "clip=0");
    REFUSES(p.mesh.tp = 2, "tp=2", "server-mode=async", "sync");
    REFUSES(p.precision = PRECISION_BF16, "precision=bf16", "async");
    REFUSES(p.device = PLAN_DEVICE_CUDA, "device=cuda", "async");
    REFUSES(plan_set_number(&p, "spike-guard", 3), "spike-guard", "async");
    REFUSES(plan_set_number(&p, "save-async", 1), "save-async", "async");
    REFUSES(train_options(&p)->trace[0] = 'x', "trace", "async");
    REFUSES((o->order[0] = train_options(&p)->resume[0] = 'x'), "server-order", "resume");
}

TEST(test_servers_and_others_that_sum_are_refused) {
    struct run r;
    struct plan zero = server_plan(1), coded = server_plan(1);
    plan_set_number(&zero, "zero", 1);
    grad_options(&coded)->codec = CODEC_INT8;
    coded.mesh.dp = 2, coded.micro_batch = 1, coded.precision = PRECISION_FP32;
    assert_ok(plan_settle(&zero, 1));
    assert_fails(run_compile(&r, &train_recipe, &zero, 0, NULL, NULL), E_CONFIG, "servers", "zero", "leave");
    run_destroy(&r);
    assert_ok(plan_settle(&coded, 2));
    assert_fails(run_compile(&r, &train_recipe, &coded, 0, NULL, NULL), E_CONFIG, "servers", "grad-codec");
    run_destroy(&r);
}

/* Servers that do not wait for all: how far apart workers may be, which workers a server waits for, and where ranks
 * meet. */
/* ---- the bound ---- */
TEST(test_server_allows_what_is_at_most_the_staleness_ahead) {
    for (int64_t s = 0; s < 4; s++)
        for (int64_t ahead = -2; ahead < 8; ahead++) assert_true(server_allows(5 + ahead, 5, s) == (ahead <= s));
}

/* The most clocks by which a worker that gets weights is ahead of the slowest, by the record of server 0. */
static int64_t most_ahead(const char *path, int servers, int workers) {
    struct server_log log;
    int64_t most = -1;
    if (server_log_read(&log, path, servers, workers) != OK) return -1;
    for (int i = 0; i < log.n[0]; i++) {
        const int64_t *row = server_log_row(&log, 0, i);
        int64_t finished[MAX_WORKERS] = {0}, least = INT64_MAX;
        for (int j = 0; j < row[LOG_VERSION]; j++) finished[server_log_row(&log, 0, j)[LOG_WORKER]]++;
        for (int w = 0; w < log.n_workers; w++) least = min64(least, finished[w]);
        most = max64(most, row[LOG_CLOCK] - least);
    }
    server_log_fini(&log);
    return most;
}

/* The last worker begins its first clock when rank 0 has done clocks 0 .. `ahead`. */
static enum status run_ahead(struct run *r, struct plan p, int64_t ahead) {
    int32_t word = 1;
    struct comm_request request = {0};
    TRY(open_loop(r, p, CLOCKS));
    int last = (int)r->plan.workers - 1;
    if (comm_world_rank() == last) TRY(comm_recv_start(group_world(), &word, 1, INT32, 0, 1, &request));
    TRY(comm_wait(&request));
    for (int i = 0; i < CLOCKS; i++) {
        TRY(run_step(r));
        if (comm_is_rank_0() && i == ahead) TRY(comm_send_start(group_world(), &word, 1, INT32, last, 1, &request));
    }
    return comm_wait(&request);
}

static int64_t ahead_under(enum server_where where, int mode, int64_t staleness, int64_t ahead) {
    struct run r;
    struct plan p = loop_plan(1, where, mode);
    server_options(&p)->staleness = staleness;
    shared_path("ahead", server_options(&p)->record);
    bool ok = agree_all(run_ahead(&r, p, ahead) == OK);
    int64_t most = ok ? most_ahead(server_options(&p)->record, 1, (int)p.global_batch / SAMPLES) : -1;
    run_destroy(&r);
    status_report();
    return (int64_t)agree_max((double)most);
}

TEST(test_workers_are_as_far_ahead_as_the_bound_lets_them) {
    if (comm_world_size() == 1) skip();
    for (enum server_where where = SERVER_SHARED; where <= SERVER_OWN; where++) {
        if (comm_world_size() - (where == SERVER_OWN) < 2) continue;                          /* one worker only */
        for (int64_t s = 0; s < 3; s++) assert_int_equal(ahead_under(where, SERVER_SSP, s, s), s);
        assert_true(ahead_under(where, SERVER_ASYNC, 0, CLOCKS - 2) >= CLOCKS - 2);
    }
}

/* ---- a server on a rank of its own ---- */
/* Wait until the file exists. Meanwhile the rank is deaf: it makes no call that progresses messages. */
static bool wait_deaf(const char *path) {
    const struct timespec nap = {0, 1000000};
    for (double until = clock_s() + 30; clock_s() < until; nanosleep(&nap, NULL))
        if (access(path, F_OK) == 0) return true;
    return false;
}

/* Worker 0 does all clocks but the last, while the other workers are deaf. */
static enum status run_among_the_deaf(struct run *r, struct plan p, const char *done) {
    int rank = comm_world_rank();
    TRY(open_loop(r, p, CLOCKS));
    if (rank > 0 && rank < r->plan.workers && !wait_deaf(done))
        return FAIL(E_TIMEOUT, "worker 0 has not done its part");
    for (int i = 0; i < CLOCKS; i++) {
        FILE *f = rank == 0 && i == CLOCKS - 1 ? fopen(done, "w") : NULL;
        if (f) fclose(f);
        TRY(run_step(r));
    }
    return OK;
}

/* Every server's log must begin with this worker's rows, except the last two. The file `done` exists before the
 * worker's last clock, when servers may not yet have applied the push before. */
static bool all_but_its_last_two_come_first(const char *path, int servers, int workers, int worker) {
    struct server_log log;
    bool ok = server_log_read(&log, path, servers, workers) == OK;
    for (int k = 0; k < servers && ok; k++)
        for (int i = 0; i < CLOCKS - 2; i++) ok &= server_log_row(&log, k, i)[LOG_WORKER] == worker;
    server_log_fini(&log);
    return ok;
}

/* With shared servers this test would not end, because such a server answers only when its worker progresses. */
TEST(test_a_server_of_its_own_waits_for_no_workers_rows) {
    char done[OPTION_TEXT_MAX];
    bool ok = true;
    if (comm_world_size() < 4) skip();
    for (int servers = 1; servers <= most_servers(SERVER_OWN) && ok; servers++) {
        struct run r;
        struct plan p = loop_plan(servers, SERVER_OWN, SERVER_ASYNC);
        int workers = comm_world_size() - servers;
        shared_path(servers == 1 ? "done-1" : "done-2", done);
        shared_path("deaf", server_options(&p)->record);
        ok = agree_all(run_among_the_deaf(&r, p, done) == OK);
        ok = ok && agree_all(all_but_its_last_two_come_first(server_options(&p)->record, servers, workers, 0));
        run_destroy(&r);
    }
    status_report();
    assert_true(ok);
}

/* ---- meeting ---- */
/* Do all workers have the same weights, and servers their shards of these? */
static bool same_everywhere(const struct run *r) {
    bool same = true;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        char *copy = malloc((size_t)type_bytes(&w->type));
        if (comm_is_rank_0()) memcpy(copy, w->weight, (size_t)type_bytes(&w->type));
        same &= comm_broadcast(group_world(), copy, type_bytes(&w->type), UINT8, 0) == OK;
        bool own = w->weight_residence == RESIDENT_OWN;
        size_t at = own ? 8 * (size_t)w->own_first : 0;
        same &= !memcmp(copy + at, w->weight, own ? 8 * (size_t)w->own_n : (size_t)type_bytes(&w->type));
        free(copy);
    }
    return agree_all(same);
}

/* Two clocks, a meeting and a save; then three clocks to the end. The checkpoint loads in plain dp. */
static bool meets_and_saves(enum server_where where) {
    char folder[OPTION_TEXT_MAX], step[CHECKPOINT_PATH_MAX];
    struct run r;
    struct plan p = loop_plan(most_servers(where), where, SERVER_ASYNC), dp = loop_plan(0, SERVER_SHARED, SERVER_SYNC);
    double loss[2] = {0, 1};
    shared_path(where == SERVER_OWN ? "met-own" : "met", folder);
    bool ok = agree_all(open_loop(&r, p, 2) == OK);
    ok = ok && agree_all(run_step(&r) == OK);
    ok = ok && run_evaluate(&r, 1, &loss[0]) == E_INTERNAL && checkpoint_save(&r, folder, 0) == E_INTERNAL;
    status_clear();
    ok = agree_all(ok) && agree_all(run_step(&r) == OK) && same_everywhere(&r) && r.n_update == 2;
    ok = ok && agree_all(checkpoint_save(&r, folder, 0) == OK && run_evaluate(&r, 1, &loss[0]) == OK);
    r.flush_at = 5;
    for (int i = 0; i < 3 && ok; i++) ok = run_step(&r) == OK;
    ok = agree_all(ok) && same_everywhere(&r) && r.n_update == 5;
    run_destroy(&r);
    dp.global_batch = p.global_batch, dp.micro_batch = p.global_batch / comm_world_size();
    ok = ok && agree_all(open_loop(&r, dp, 0) == OK && checkpoint_resolve(folder, step) == OK);
    ok = ok && agree_all(checkpoint_load(&r, step, CHECKPOINT_ALL) == OK && run_evaluate(&r, 1, &loss[1]) == OK);
    run_destroy(&r);
    status_report();
    return ok && (where == SERVER_SHARED ? loss[0] == loss[1] : fabs(loss[0] / loss[1] - 1) < 1e-14);
}

TEST(test_ranks_meet_with_the_same_weights_and_may_save) {
    assert_true(meets_and_saves(SERVER_SHARED));
    if (comm_world_size() > 1) assert_true(meets_and_saves(SERVER_OWN));
}

/* One worker and one server equal the serial run to the bit. */
TEST(test_one_worker_is_the_serial_run) {
    if (comm_world_size() > 1) skip();
    struct run r[2];
    const int modes[] = {SERVER_SYNC, SERVER_ASYNC};
    for (int i = 0; i < 2; i++) assert_ok(run_clocks(&r[i], loop_plan(i, SERVER_SHARED, modes[i]), 0));
    assert_true(r[0].last.loss == r[1].last.loss && r[0].last.grad_norm == r[1].last.grad_norm);
    for (int i = 0; i < r[0].program.n_params; i++)
        assert_memory_equal(r[0].program.params[i].weight, r[1].program.params[i].weight,
                            (size_t)type_bytes(&r[0].program.params[i].type));
    run_destroy(&r[0]);
    run_destroy(&r[1]);
}

TESTS(unit_test(test_server_parts_cover_every_element_once), unit_test(test_servers_have_the_optimizer_between_them),
      unit_test(test_servers_equal_serial_in_every_layout), unit_test(test_a_server_is_the_hot_spot),
      unit_test(test_servers_checkpoint_is_loaded_by_other_numbers_of_them), unit_test(test_servers_refuse_in_one_line),
      unit_test(test_servers_and_others_that_sum_are_refused),
      unit_test(test_server_allows_what_is_at_most_the_staleness_ahead),
      unit_test(test_workers_are_as_far_ahead_as_the_bound_lets_them),
      unit_test(test_a_server_of_its_own_waits_for_no_workers_rows),
      unit_test(test_ranks_meet_with_the_same_weights_and_may_save), unit_test(test_one_worker_is_the_serial_run))
