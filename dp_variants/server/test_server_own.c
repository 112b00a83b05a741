/* ranks: 2 4  device: cpu
 *
 * Servers on ranks of their own that wait for all workers have the serial run's numbers in layouts of dp, tp and pp, in
 * every precision. Tests also check their memory, the bytes that they send and get, checkpoints to and from other
 * layouts, and refusals. A batch has 12 samples, which 1, 2 and 3 workers divide. */
#include "dp_variants/server/server.h"
#include "dp_variants/server/test_server.h"
#include "driver/recipe.h"
#include "launch/launch_restart.h"
#include "mixed_precision/fp8.h"
#include "mixed_precision/mixed_precision.h"
#include "planner/price.h"
#include "pp/pp.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

enum { BATCH = 12 };

static struct plan own_plan(int servers) {
    struct plan p = parity_plan();
    p.global_batch = p.micro_batch = BATCH;
    server_options(&p)->servers = servers;
    server_options(&p)->where = servers ? SERVER_OWN : SERVER_SHARED;
    return p;
}

static struct plan replicas_plan(int servers) {
    struct plan p = own_plan(servers);
    p.layers = 2;
    p.mesh.dp = comm_world_size();
    p.micro_batch = 1;
    return p;
}

/* ---- samples of each rank ---- */
TEST(test_workers_have_every_sample_once_and_servers_none) {
    for (int dp = 2; dp <= 4; dp++)
        for (int servers = 1; servers < dp; servers++) {
            struct plan p = own_plan(servers);
            int seen[BATCH] = {0};
            p.mesh.dp = dp, p.micro_batch = 2;
            assert_ok(plan_settle(&p, dp));
            assert_int_equal(p.workers * p.n_microbatches * p.micro_batch, BATCH);
            for (int rank = 0; rank < dp; rank++) {
                plan_place(&p, rank);
                assert_true(plan_has_samples(&p) == (rank < dp - servers));
                for (int i = 0; plan_has_samples(&p) && i < p.n_microbatches * 2; i++)
                    seen[schedule_first_sample(i / 2, rank, p.workers, 2) + i % 2]++;
            }
            for (int i = 0; i < BATCH; i++) assert_int_equal(seen[i], 1);
        }
}

/* ---- parity ---- */
struct tally { const struct reference *reference; int seen, right; };

static void try_layout(void *self, const struct plan *p) {
    struct tally *t = self;
    if (p->micro_batch != 2 || pp_options(p)->split[0]) return;
    t->seen++;
    t->right += layout_is_serial(p, OK, t->reference);
}

/* layouts_each leaves out dp=1, which is refused, because it leaves no worker. */
TEST(test_servers_of_their_own_equal_serial_in_every_layout) {
    struct reference ref;
    struct plan serial = own_plan(0);
    struct tally t = {&ref, 0, 0};
    enum status status = reference_init(&ref, &serial);
    for (int servers = 1; servers < comm_world_size() && agree_all(status == OK); servers++) {
        struct plan plan = own_plan(servers);
        layouts_each(&plan, comm_world_size(), try_layout, &t);
    }
    reference_fini(&ref);
    assert_ok(status);
    assert_true(t.seen >= (comm_world_size() == 2 ? 1 : 8));
    assert_int_equal(t.right, t.seen);
}

/* One worker and one server make the same sums as one rank, so they equal the serial run to the bit in every precision.
 * In fp16 the first loss scale is too large, so that both skip steps. */
static const struct trial { int precision, fp8; } TRIALS[] = {
    {PRECISION_FP64, 0}, {PRECISION_FP32, 0}, {PRECISION_BF16, 0}, {PRECISION_FP16, 0}, {PRECISION_FP32, 1}};
enum { N_TRIALS = sizeof TRIALS / sizeof *TRIALS, STEPS = 5 };

static enum status run_both(struct run r[2], struct trial t) {
    for (int i = 0; i < 2; i++) {
        struct plan p = own_plan(i);
        p.layers = 2, p.micro_batch = 4, p.mesh.dp = 1 + i, p.precision = t.precision;
        mixed_precision_options(&p)->init = 1 << 20;
        mixed_precision_options(&p)->hysteresis = 1;
        fp8_options(&p)->on = t.fp8;
        TRY(plan_settle(&p, 1 + i));
        TRY(run_create(&r[i], &train_recipe, &p, WATCH_NOTHING));
        TRY(layout_use_demo(&r[i]));
        for (int step = 0; step < STEPS; step++) TRY(run_step(&r[i]));
    }
    return OK;
}

static bool are_the_same(const struct run *serial, const struct run *r) {
    const struct step_result *x = &serial->last, *y = &r->last;
    bool same = x->loss == y->loss && x->grad_norm == y->grad_norm && x->loss_scale == y->loss_scale &&
                serial->n_update == r->n_update;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *a = &serial->program.params[i], *b = &r->program.params[i];
        same &= !memcmp(a->weight, b->weight, (size_t)type_bytes(&a->type));
    }
    return same;
}

TEST(test_one_worker_and_one_server_are_the_serial_run) {
    double loss[2] = {0, 1};
    bool ok = true;
    if (comm_world_size() != 2) skip();
    for (int i = 0; i < N_TRIALS && ok; i++) {
        struct run r[2] = {{.n_step = 0}, {.n_step = 0}};
        ok = agree_all(run_both(r, TRIALS[i]) == OK && are_the_same(&r[0], &r[1]));
        ok = ok && r[0].n_update > 0 && (r[0].n_update < STEPS) == (TRIALS[i].precision == PRECISION_FP16);
        for (int k = 0; k < 2 && ok; k++) ok = agree_all(run_evaluate(&r[k], 2, &loss[k]) == OK);
        ok = ok && agree_all(loss[0] == loss[1]);
        run_destroy(&r[1]);
        run_destroy(&r[0]);
    }
    status_report();
    assert_true(ok);
}

/* ---- memory and messages of a server ---- */
TEST(test_a_server_of_its_own_holds_its_shard_and_no_activations) {
    for (int mode = SERVER_SYNC; mode <= SERVER_ASYNC; mode++) {
        int64_t weights = 0, all = 0;
        struct plan p = replicas_plan(2);
        p.mesh.dp = 4, p.clip = 0;
        server_options(&p)->mode = mode;
        assert_ok(plan_settle(&p, 4));
        for (int rank = 0; rank < 4; rank++) {
            struct run r;
            int64_t own = 0;
            assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
            const int64_t *bytes = r.memory.bytes[TIER_DEVICE];
            for (int i = 0; i < r.program.n_params; i++) own += r.program.params[i].own_n;
            for (int i = 0; i < r.program.n_params && rank == 0; i++) all += type_n(&r.program.params[i].type);
            int64_t room = 64 * r.program.n_params;                  /* alignment gaps at most */
            if (rank < 2) {
                assert_true(own == 0 && bytes[ROLE_OPTIM] == 0 && bytes[ROLE_ACT] > 0 && bytes[ROLE_PARAM] >= 8 * all);
            } else {
                assert_true(bytes[ROLE_ACT] == 0 && r.schedule.n == 0 && r.bill.flops[ROW_FORWARD] == 0);
                assert_true(bytes[ROLE_PARAM] >= 8 * own && bytes[ROLE_PARAM] < 8 * own + room);
                assert_true(bytes[ROLE_OPTIM] >= 16 * own && bytes[ROLE_OPTIM] < 16 * own + 2 * room);
                assert_true(mode == SERVER_SYNC ? bytes[ROLE_GRAD] >= 8 * own && bytes[ROLE_GRAD] < 8 * own + room
                                                : bytes[ROLE_GRAD] == 0);
            }
            weights += own;
            run_destroy(&r);
        }
        assert_int_equal(weights, all);
    }
}

/* Bytes of server k's elements, in fp64. */
static double shard_of(const struct run *r, int k, int servers) {
    int64_t n = 0;
    for (int i = 0; i < r->program.n_params; i++) n += server_part(type_n(&r->program.params[i].type), k, servers).n;
    return 8 * (double)n;
}

static double moved(const struct run *r, enum comm_op op) {
    const struct ledger_entry *e = &group_ledger(r->mesh.group[AXIS_DP])->entry[op];
    return op == COMM_SEND ? e->sent[0] + e->sent[1] : (double)e->calls;
}

/* A worker sends S bytes of gradients and receives P messages a param. A server sends W S/P bytes of weights. */
static bool sends_what_it_should(const struct run *r, int servers, int steps) {
    int rank = comm_world_rank(), workers = comm_world_size() - servers, parts = 0;
    double all = 0;
    for (int k = 0; k < servers; k++) all += shard_of(r, k, servers);
    for (int i = 0; i < r->program.n_params; i++)
        for (int k = 0; k < servers; k++) parts += server_part(type_n(&r->program.params[i].type), k, servers).n > 0;
    if (rank < workers) return moved(r, COMM_SEND) == steps * all && moved(r, COMM_RECV) == steps * parts;
    return moved(r, COMM_SEND) == steps * workers * shard_of(r, rank - workers, servers) &&
           moved(r, COMM_REDUCE) == 0 && moved(r, COMM_BROADCAST) == 0;
}

TEST(test_a_workers_bytes_do_not_depend_on_how_many_work) {
    bool ok = true;
    for (int servers = 1; servers < comm_world_size() && ok; servers++) {
        struct run r;
        enum status status = layout_open(&r, replicas_plan(servers), WATCH_NOTHING);
        for (int i = 0; i < 2 && status == OK; i++) status = run_step(&r);
        ok = agree_all(status == OK && sends_what_it_should(&r, servers, 2));
        run_destroy(&r);
    }
    assert_true(ok);
}

/* ---- checkpoints ---- */
static enum status train_from(struct run *r, const struct plan *p, const char *folder, bool save, double *loss) {
    TRY(layout_open(r, *p, WATCH_NOTHING));
    return go_on_from(r, folder, save, loss);
}

/* plans[0] saves and goes on. The other plans load, and must get the same loss. */
static bool go_on_alike(const struct plan *plans, int n, const char *name) {
    char folder[CHECKPOINT_PATH_MAX];
    double loss[4] = {0};
    snprintf(folder, sizeof folder, "%s", test_path(name));
    bool ok = agree_all(comm_broadcast(group_world(), folder, sizeof folder, UINT8, 0) == OK);
    for (int i = 0; i < n && ok; i++) {
        struct run r;
        ok = agree_all(train_from(&r, &plans[i], folder, i == 0, &loss[i]) == OK);
        run_destroy(&r);
        ok = ok && agree_all(fabs(loss[i] / loss[0] - 1) < 1e-10);
    }
    status_report();
    return ok;
}

TEST(test_checkpoints_go_to_other_layouts_and_come_from_them) {
    struct plan own = replicas_plan(1), most = replicas_plan(comm_world_size() - 1), dp = replicas_plan(0),
                shared = replicas_plan(1);
    server_options(&shared)->where = SERVER_SHARED;
    assert_true(go_on_alike((struct plan[]){own, most, dp, shared}, 4, "from-own"));
    assert_true(go_on_alike((struct plan[]){dp, own, most}, 3, "from-dp"));
}

/* ---- refusals ---- */
#define REFUSES(change, ...)                                                                                           \
    do {                                                                                                               \
        struct run r_;                                                                                                 \
        struct plan p = replicas_plan(1);                                                                              \
        p.mesh.dp = 4;                                                                                                 \
        change;                                                                                                        \
        enum status settled = plan_settle(&p, 0);                                                                      \
        assert_fails(settled == OK ? run_compile(&r_, &train_recipe, &p, 0, NULL, NULL) : settled, E_CONFIG,           \
                     __VA_ARGS__);                                                                                     \
        if (settled == OK) run_destroy(&r_);                                                                           \
    } while (0)

TEST(test_own_ranks_refuse_in_one_line) {
    REFUSES(server_options(&p)->servers = 4, "servers=4", "server-ranks=own", "dp=4", "use dp 5 or more");
    REFUSES(server_options(&p)->servers = 0, "server-ranks", "servers=0", "--servers 1");
    REFUSES(p.global_batch = 16, "dp=3", "only serve", "global-batch=16", "global-batch 18");
    REFUSES(p.micro_batch = 3, "micro-batch=3", "4");
    REFUSES(p.mesh.cp = 2, "server-ranks=own", "cp=2", "shared");
    REFUSES((p.mesh.pp = 2, model_options(&p)->tie = 0, p.clip = 0, pp_options(&p)->schedule = SCHEDULE_PIPEDREAM),
            "1 replicas only", "flush");
    REFUSES((p.mesh.pp = 2, pp_options(&p)->optim_sync = OPTIM_SYNC_VALIDATE), "only serve", "optim-sync wait");
}

TEST(test_own_ranks_have_no_price) {
    struct cluster c;
    struct plan p = replicas_plan(1);
    p.mesh.dp = 4;
    assert_ok(plan_settle(&p, 4));
    assert_ok(cluster_read("cpu-2core", &c));
    assert_fails(price_check(&p, &c), E_CONFIG, "server-ranks=own", "server-ranks shared");
}

/* A job that goes on with fewer ranks still has its servers. */
TEST(test_fewer_ranks_are_fewer_workers) {
    struct plan p = own_plan(2);
    p.micro_batch = 0, p.mesh.tp = p.mesh.pp = 1;
    assert_int_equal(launch_fewer_ranks(&p, 8, 1), 6);               /* 4 workers divide 12, and 5 do not */
    assert_int_equal(launch_fewer_ranks(&p, 3, 1), 0);
}

TESTS(unit_test(test_workers_have_every_sample_once_and_servers_none),
      unit_test(test_servers_of_their_own_equal_serial_in_every_layout),
      unit_test(test_one_worker_and_one_server_are_the_serial_run),
      unit_test(test_a_server_of_its_own_holds_its_shard_and_no_activations),
      unit_test(test_a_workers_bytes_do_not_depend_on_how_many_work),
      unit_test(test_checkpoints_go_to_other_layouts_and_come_from_them), unit_test(test_own_ranks_refuse_in_one_line),
      unit_test(test_own_ranks_have_no_price), unit_test(test_fewer_ranks_are_fewer_workers))
