/* ranks: 1 2 4  device: cpu
 *
 * Servers that wait for all workers have the serial run's numbers in every layout. Tests also check owners, the bytes
 * that a server sends and gets, checkpoints, and the refusals of all modes. */
#include "lib/ops/codec.h"
#include "driver/recipe.h"
#include "lib/comm/comm_backend.h"
#include "pp/pp.h"
#include "dp_variants/server/server.h"
#include "driver/train/train_options.h"
#include "dp_variants/server/test_server.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

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

TESTS(unit_test(test_server_parts_cover_every_element_once), unit_test(test_servers_have_the_optimizer_between_them),
      unit_test(test_servers_equal_serial_in_every_layout), unit_test(test_a_server_is_the_hot_spot),
      unit_test(test_servers_checkpoint_is_loaded_by_other_numbers_of_them),
      unit_test(test_servers_refuse_in_one_line), unit_test(test_servers_and_others_that_sum_are_refused))
