/* ranks: 1 2 4  device: cpu  threads: 1
 *
 * Stages 1 and 2: after an update the next forward gathers the weights, each block's while the block before computes.
 * On the rows, tests check where PARAM_AHEAD is. In a run, they check which gathers have started when a block begins,
 * that no weight is read before its gather, and that an evaluation between steps has gathered weights. */
#include "driver/recipe.h"
#include "lib/comm/comm.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "zero/zero.h"
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 3 };

static struct plan plan_of(int stage, int dp, int tp, int pp) {
    struct plan plan = parity_plan();
    zero_options(&plan)->stage = stage;
    plan.mesh.dp = dp;
    plan.mesh.tp = tp;
    plan.mesh.pp = pp;
    plan.micro_batch = 1;
    assert_ok(plan_settle(&plan, dp * tp * pp));
    return plan;
}

/* ---- rows ---- */
static bool is_compute(const struct row *r) { return r->kind <= ROW_BACKWARD_WEIGHT; }

static int find(const struct tape *t, enum row_kind kind, int param, int from) {
    for (int i = from; i < t->n; i++)
        if (t->rows[i].kind == kind && t->rows[i].id == param) return i;
    return -1;
}

/* The block of the first compute row from row i on; and the first row of the last block before `block`. */
static int block_at(const struct program *p, const struct tape *t, int i) {
    while (i < t->n && !is_compute(&t->rows[i])) i++;
    return i < t->n ? p->steps[t->rows[i].id].block : -1;
}
static int begin_of_block_before(const struct program *p, const struct tape *t, int block) {
    int begin = -1, current = -1;
    for (int i = 0; i < t->n && block_at(p, t, i) != block; i++) {
        if (!is_compute(&t->rows[i]) || p->steps[t->rows[i].id].block == current) continue;
        current = p->steps[t->rows[i].id].block;
        begin = i;
    }
    return begin;
}

/* @return whether a block comes before the one that uses the param first */
static bool check_announced(const struct program *p, const struct tape *t, int param) {
    int ahead = find(t, ROW_PARAM_AHEAD, param, 0), needed = find(t, ROW_PARAM_NEEDED, param, 0);
    assert_true(ahead >= 0 && ahead < needed);
    assert_int_equal(t->rows[ahead].weight[0], RESIDENT);
    int begin = begin_of_block_before(p, t, block_at(p, t, needed));
    assert_true(begin < 0 || ahead < begin);
    return begin >= 0;
}

static void check_rows(const struct plan *plan) {
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        struct run r;
        int early = 0;
        assert_ok(run_compile(&r, &train_recipe, plan, rank, NULL, NULL));
        for (int k = 0; k < r.program.n_chunks; k++) {
            const struct tape *t = r.chunks[k].tapes;
            for (int i = 0; i < r.program.n_params; i++) {
                if (find(&t[TAPE_F], ROW_PARAM_NEEDED, i, 0) >= 0) early += check_announced(&r.program, &t[TAPE_F], i);
                for (enum tape_kind b = TAPE_B; b <= TAPE_W; b++)
                    assert_int_equal(find(&t[b], ROW_PARAM_AHEAD, i, 0), -1);
            }
            assert_int_equal(r.chunks[k].scratch_bytes[TAPE_F][ROLE_COMM], 0);
        }
        assert_true(early > 10);
        run_destroy(&r);
    }
}

TEST(test_zero_announces_weights_a_block_ahead) {
    for (int stage = 1; stage <= 2; stage++) {
        struct plan plans[] = {plan_of(stage, 2, 1, 1), plan_of(stage, 2, 2, 2), plan_of(stage, 1, 1, 1)};
        for (int i = 0; i < 3; i++) check_rows(&plans[i]);
    }
}

/* ---- a run ---- */
struct watch {
    int block;                         /* the last block of this step that has begun */
    bool ran, in_order, numbers, gone;
};

static int64_t gathers(const struct run *r) {
    return group_ledger(r->mesh.group[AXIS_DP])->entry[COMM_ALL_GATHER].calls;
}

static bool any_nan(const struct param *w, int64_t from, int64_t to, bool all) {
    for (int64_t i = from; i < to; i++)
        if (isnan(((const double *)w->weight)[i]) != all) return !all;
    return all;
}
static bool has_nan(const struct param *w) { return any_nan(w, 0, w->padded_n, false); }

static bool others_are_nan(const struct param *w) {
    return any_nan(w, 0, w->own_first, true) && any_nan(w, w->own_first + w->shard_n, w->padded_n, true);
}

/* The number of params that blocks 0 .. last of the model use. */
static int64_t params_until(const struct run *r, int last) {
    int64_t n = 0;
    for (int i = 0; i < r->program.n_params; i++) {
        bool used = false;
        for (int s = 0; s < r->program.n_steps; s++)
            for (int k = 0; k < r->program.steps[s].n_weight && r->program.steps[s].block <= last; k++)
                used |= r->program.steps[s].weight[k] == i;
        n += used && r->program.params[i].present;
    }
    return n;
}

static int block_of(const struct run *r, int param) {
    for (int s = 0; s < r->program.n_steps; s++)
        for (int k = 0; k < r->program.steps[s].n_weight; k++)
            if (r->program.steps[s].weight[k] == param) return r->program.steps[s].block;
    return -1;
}

/* When block b of a step's first forward begins, exactly the gathers of blocks 0 .. b + 1 have started. */
static enum status on_needed(struct run *r, void *self, const struct event *e) {
    struct watch *w = self;
    int block = block_of(r, e->param), last = r->program.n_blocks - 1;
    w->numbers &= !has_nan(&r->program.params[e->param]);
    if (block == w->block + 1) {
        w->block = block;
        w->in_order &= gathers(r) == r->n_step * params_until(r, last) + params_until(r, block + 1);
    }
    return OK;
}

/* The last rank begins the next forward late. A rank that does not wait for that rank's shards reads NaN. */
static enum status on_published(struct run *r, void *self, const struct event *e) {
    enum { LATE_US = 50000 };
    struct watch *w = self;
    (void)e;
    if (comm_world_size() > 1 && comm_world_rank() == comm_world_size() - 1) usleep(LATE_US);
    for (int i = 0; i < r->program.n_params; i++)
        if (r->program.params[i].present) w->gone &= others_are_nan(&r->program.params[i]);
    w->block = -1;
    return OK;
}

static enum status run_watched(struct run *r, const struct plan *plan, struct watch *w) {
    *w = (struct watch){.block = -1, .in_order = true, .numbers = true, .gone = true};
    TRY(run_create(r, &train_recipe, plan, WATCH_LIFETIMES));
    TRY(layout_use_demo(r));
    TRY(run_subscribe(r, EVENT_PARAM_NEEDED, on_needed, w));
    TRY(run_subscribe(r, EVENT_PARAM_PUBLISH, on_published, w));
    for (int i = 0; i < STEPS; i++) TRY(run_step(r));
    w->ran = true;
    return OK;
}

TEST(test_zero_gathers_a_block_beside_the_one_before) {
    for (int stage = 1; stage <= 2; stage++) {
        struct plan plan = plan_of(stage, comm_world_size(), 1, 1);
        struct watch w;
        struct run r;
        enum status status = run_watched(&r, &plan, &w);
        int64_t started = status == OK ? gathers(&r) : 0, expected = STEPS * params_until(&r, r.program.n_blocks);
        bool in_order = agree_all(w.in_order), numbers = agree_all(w.numbers), gone = agree_all(w.gone);
        run_destroy(&r);
        assert_ok(status);
        assert_int_equal(started, expected);                         /* only a step's first microbatch gathers */
        assert_true(in_order);
        assert_true(numbers);
        assert_true(gone);
    }
}

/* ---- an evaluation between two steps ---- */
struct outcome { double loss, value; int64_t gathers; };

static enum status train_and_evaluate(const struct plan *plan, struct outcome *o) {
    struct run r;
    enum status status = run_create(&r, &train_recipe, plan, WATCH_LIFETIMES);
    if (status == OK) status = layout_use_demo(&r);
    if (status == OK) status = run_step(&r);
    if (status == OK) status = run_evaluate(&r, 1, &o->value);
    if (status == OK) status = run_step(&r);
    o->loss = r.last.loss;
    o->gathers = status == OK && plan->mesh.dp > 1 ? gathers(&r) / params_until(&r, r.program.n_blocks) : 2;
    run_destroy(&r);
    return status;
}

/* An evaluation gathers the whole weights that it needs. The step after it does not gather them again. */
TEST(test_zero_evaluates_with_whole_weights) {
    struct plan serial = plan_of(0, 1, 1, 1);
    struct outcome expected;
    assert_ok(train_and_evaluate(&serial, &expected));
    for (int stage = 1; stage <= 2; stage++) {
        struct plan plan = plan_of(stage, comm_world_size(), 1, 1);
        struct outcome o;
        assert_ok(train_and_evaluate(&plan, &o));
        assert_close(o.value, expected.value, 1e-10 * expected.value);
        assert_close(o.loss, expected.loss, 1e-10 * expected.loss);
        assert_int_equal(o.gathers, 2);
    }
}

TESTS(unit_test(test_zero_announces_weights_a_block_ahead),
      unit_test(test_zero_gathers_a_block_beside_the_one_before), unit_test(test_zero_evaluates_with_whole_weights))
