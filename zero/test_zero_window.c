/* ranks: 1 2 4  device: cpu
 *
 * Lifetimes of stage 3's gathered weights. On the rows: PARAM_AHEAD of a block is before the previous block, the value
 * lives from AHEAD to DONE, and at most two blocks' weights are live. In a run: a released weight reads as NaN. */
#include "driver/recipe.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"

static struct plan window_plan(int dp, int tp, int pp) {
    struct plan plan = parity_plan();
    zero_options(&plan)->stage = 3;
    plan.mesh.dp = dp;
    plan.mesh.tp = tp;
    plan.mesh.pp = pp;
    plan.micro_batch = 2;
    return plan;
}

/* ---- rows ---- */
struct window { int ahead, needed, first_use, last_use, done, block; };

static bool is_compute(const struct row *r) { return r->kind <= ROW_BACKWARD_WEIGHT; }

static bool uses_value(const struct row *r, int v) {
    for (int i = 0; i < MAX_WEIGHTS && is_compute(r); i++)
        if (r->weight[i] == v) return true;
    return false;
}

/* The rows that announce, use and release the value of the row `ahead`, a PARAM_AHEAD; -1: none. */
static struct window window_of(const struct program *p, const struct tape *t, int ahead) {
    struct window w = {ahead, -1, -1, -1, -1, -1};
    int v = t->rows[ahead].weight[0];
    for (int i = ahead + 1; i < t->n; i++) {
        const struct row *r = &t->rows[i];
        if (r->kind == ROW_PARAM_NEEDED && r->weight[0] == v && w.needed < 0) w.needed = i;
        if (r->kind == ROW_PARAM_DONE && r->weight[0] == v) w.done = i;
        if (!uses_value(r, v)) continue;
        if (w.first_use < 0) w.block = p->steps[r->id].block;
        if (w.first_use < 0) w.first_use = i;
        w.last_use = i;
    }
    return w;
}

/* The first row of the block that runs before `block` on this tape; for the first block, the tape's end. */
static int first_row_of_block_before(const struct program *p, const struct tape *t, int block) {
    int first = t->n, current = -1;
    for (int i = 0; i < t->n; i++) {
        if (!is_compute(&t->rows[i])) continue;
        int b = p->steps[t->rows[i].id].block;
        if (b == block) break;
        if (b != current) first = i;
        current = b;
    }
    return first;
}

static void check_window(const struct program *p, const struct chunk *k, enum tape_kind tape, int ahead) {
    const struct tape *t = &k->tapes[tape];
    const struct value *v = &k->values[t->rows[ahead].weight[0]];
    const struct param *param = &p->params[t->rows[ahead].id];
    struct window w = window_of(p, t, ahead);
    assert_int_equal(v->role, ROLE_COMM);
    assert_int_equal(v->bytes, param->padded_n * (int64_t)dtype_size(param->type.dtype));
    assert_true(ahead < w.needed && w.needed < w.first_use && w.last_use < w.done);
    assert_true(v->birth.tape == tape && v->birth.row == ahead);
    assert_true(v->death.tape == tape && v->death.row == w.done);
    assert_true(ahead < first_row_of_block_before(p, t, w.block));
}

/* The number of blocks whose weights are live at row i. */
static int blocks_present(const struct program *p, const struct tape *t, int i) {
    int blocks[16], n = 0;
    for (int a = 0; a <= i; a++) {
        if (t->rows[a].kind != ROW_PARAM_AHEAD) continue;
        struct window w = window_of(p, t, a);
        if (w.done < i) continue;
        bool known = false;
        for (int b = 0; b < n; b++) known |= blocks[b] == w.block;
        if (!known) blocks[n++] = w.block;
        assert_true(n < 16);
    }
    return n;
}

/* No row reads a weight from the param arena, where there is only a shard. */
static void check_tape(const struct program *p, const struct chunk *k, enum tape_kind tape, int *most) {
    const struct tape *t = &k->tapes[tape];
    for (int i = 0; i < t->n; i++) {
        if (t->rows[i].kind == ROW_PARAM_AHEAD) check_window(p, k, tape, i);
        for (int j = 0; j < MAX_WEIGHTS && is_compute(&t->rows[i]); j++)
            assert_int_not_equal(t->rows[i].weight[j], RESIDENT);
        if (!is_compute(&t->rows[i])) continue;
        int present = blocks_present(p, t, i);
        if (present > *most) *most = present;
    }
}

static void check_layout(const struct plan *plan) {
    for (int rank = 0; rank < plan_ranks(plan); rank++) {
        struct run r;
        int most = 0;
        assert_ok(run_compile(&r, &train_recipe, plan, rank, NULL, NULL));
        for (int k = 0; k < r.program.n_chunks; k++)
            for (enum tape_kind t = TAPE_F; t <= TAPE_B; t++) check_tape(&r.program, &r.chunks[k], t, &most);
        assert_int_equal(most, 2);
        run_destroy(&r);
    }
}

TEST(test_zero_weights_come_one_block_ahead_and_leave) {
    static const struct { int dp, tp, pp, recompute; } layouts[] = {
        {2, 1, 1, RECOMPUTE_NONE}, {1, 1, 1, RECOMPUTE_NONE}, {2, 2, 2, RECOMPUTE_NONE}, {4, 1, 1, RECOMPUTE_FULL},
        {2, 1, 2, RECOMPUTE_SELECTIVE}};
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        struct plan plan = window_plan(layouts[i].dp, layouts[i].tp, layouts[i].pp);
        recompute_options(&plan)->kind = layouts[i].recompute;
        assert_ok(plan_settle(&plan, plan_ranks(&plan)));
        check_layout(&plan);
    }
}

/* ---- a run ---- */
/* released: by param, its released value, until other values may use that memory. */
struct watch {
    void *released[MAX_PARAMS];
    int n_released, n_checked;
    bool numbers_when_needed, gone_when_released;
};

static bool all_nan(const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (!isnan(x[i])) return false;
    return true;
}
static bool none_nan(const double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        if (isnan(x[i])) return false;
    return true;
}

/* Several DONE rows end a block. At each, the values that earlier ones released are NaN, since no other row has run. */
static enum status on_done(struct run *r, void *self, const struct event *e) {
    struct watch *w = self;
    for (int i = 0; i < r->program.n_params; i++) {
        if (!w->released[i]) continue;
        w->gone_when_released &= all_nan(w->released[i], r->program.params[i].padded_n);
        w->n_checked++;
    }
    w->released[e->param] = e->buffer;
    w->n_released++;
    return none_nan(e->buffer, r->program.params[e->param].padded_n) ? OK
                                                                     : FAIL(E_INTERNAL, "released before its time");
}

/* Rows run again from here on, and other values may use the released memory. */
static void forget_released(struct run *r, struct watch *w) {
    for (int i = 0; i < r->program.n_params; i++) w->released[i] = NULL;
}

static enum status on_needed(struct run *r, void *self, const struct event *e) {
    struct watch *w = self;
    forget_released(r, w);
    w->numbers_when_needed &= none_nan(e->buffer, r->program.params[e->param].padded_n);
    return OK;
}

static enum status on_ahead(struct run *r, void *self, const struct event *e) {
    (void)e;
    forget_released(r, self);
    return OK;
}

static enum status run_watched(struct run *r, struct watch *w) {
    struct plan plan = window_plan(comm_world_size(), 1, 1);
    struct data_file *file;
    struct data_split train, val;
    TRY(plan_settle(&plan, comm_world_size()));
    TRY(run_create(r, &train_recipe, &plan, WATCH_LIFETIMES));
    TRY(data_open("configs/demo.txt", &file));
    TRY(data_split_tail(file, plan.seq, 0.1, &train, &val));
    run_set_data(r, &train, &val);
    TRY(run_subscribe(r, EVENT_PARAM_AHEAD, on_ahead, w));
    TRY(run_subscribe(r, EVENT_PARAM_NEEDED, on_needed, w));
    TRY(run_subscribe(r, EVENT_PARAM_DONE, on_done, w));
    enum status status = run_step(r);
    data_close(&file);
    return status;
}

TEST(test_zero_released_weights_read_as_nan) {
    static struct watch w;
    struct run r;
    w = (struct watch){.numbers_when_needed = true, .gone_when_released = true};
    bool ran = agree_all(run_watched(&r, &w) == OK);
    bool numbers = agree_all(w.numbers_when_needed), gone = agree_all(w.gone_when_released);
    run_destroy(&r);
    status_report();
    assert_true(ran);
    assert_true(numbers);
    assert_true(gone);
    assert_true(w.n_released > 0 && w.n_checked > w.n_released / 2);
}

TESTS(unit_test(test_zero_weights_come_one_block_ahead_and_leave), unit_test(test_zero_released_weights_read_as_nan))
