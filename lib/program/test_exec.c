/* ranks: 1  device: cpu
 *
 * The executor on a model that is small enough to compute by hand:
 *
 *   y = w t         t: TINY_N integer tokens        block a
 *   z = y^2 / 2                                     block a
 *   u = w z         w again: a tied param           block b
 *   loss = sum u  =  sum w^3 t^2 / 2                block b         d loss / d w = 3 w^2 t^2 / 2 */
#include "lib/comm/comm.h"
#include "lib/device/arena.h"
#include "lib/program/exec.h"
#include "lib/program/gradients.h"
#include "lib/trace/memory_timeline.h"
#include "lib/program/test_tiny.h"
#include <string.h>

/* ---- the ops ---- */
static enum status source_shape(const struct call *c, struct type out[MAX_OUT]) {
    out[0] = *c->weight[0].type;
    return OK;
}
static enum status sum_shape(const struct call *c, struct type out[MAX_OUT]) {
    out[0] = (struct type){c->in[0].type->dtype, {1, {axis_whole('1', 1)}}};
    return OK;
}
static enum status source_forward(const struct call *c) {
    const double *w = c->weight[0].data;
    const int32_t *t = c->in[0].data;
    for (int i = 0; i < TINY_N; i++) ((double *)c->out[0].data)[i] = w[i] * t[i];
    return OK;
}
static enum status source_weight(const struct call *c) {
    const double *dy = c->dout[0].data;
    const int32_t *t = c->in[0].data;
    for (int i = 0; i < TINY_N; i++) ((double *)c->dweight[0].data)[i] += dy[i] * t[i];
    return OK;
}
static enum status square_forward(const struct call *c) {
    const double *x = c->in[0].data;
    for (int i = 0; i < TINY_N; i++) ((double *)c->out[0].data)[i] = x[i] * x[i] / 2;
    return OK;
}
/* to[i] (+)= a[i] b[i]: used by the backward passes of products. */
static enum status multiply(void *to, const void *a, const void *b, bool add) {
    for (int i = 0; i < TINY_N; i++)
        ((double *)to)[i] = (add ? ((double *)to)[i] : 0) + ((const double *)a)[i] * ((const double *)b)[i];
    return OK;
}
static enum status square_input(const struct call *c) {
    return multiply(c->din[0].data, c->dout[0].data, c->in[0].data, c->accumulate & 1);
}
static enum status scale_forward(const struct call *c) {
    return multiply(c->out[0].data, c->in[0].data, c->weight[0].data, false);
}
static enum status scale_input(const struct call *c) {
    return multiply(c->din[0].data, c->dout[0].data, c->weight[0].data, c->accumulate & 1);
}
static enum status scale_weight(const struct call *c) {
    return multiply(c->dweight[0].data, c->dout[0].data, c->in[0].data, true);
}
static enum status sum_forward(const struct call *c) {
    double sum = 0;
    for (int i = 0; i < TINY_N; i++) sum += ((double *)c->in[0].data)[i];
    *(double *)c->out[0].data = c->loss_weight * sum;
    return OK;
}
static enum status sum_input(const struct call *c) {
    for (int i = 0; i < TINY_N; i++) ((double *)c->din[0].data)[i] = c->loss_weight * c->loss_scale;
    return OK;
}

#define KERNELS(...) .kernels = {[DEVICE_CPU] = {[FP64] = {__VA_ARGS__}}}
static const struct op op_source = {.name = "source", .shape = source_shape, .needs = {.bw_in = IN(0)},
                                    .no_grad_in = IN(0),
                                    .has_backward_weight = true, KERNELS(source_forward, NULL, source_weight)};
static const struct op op_square = {.name = "square", .shape = tiny_shape, .needs = {.bi_in = IN(0)},
                                    .has_backward_input = true, KERNELS(square_forward, square_input, NULL)};
static const struct op op_scale = {.name = "scale", .shape = tiny_shape,
                                   .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
                                   .has_backward_input = true, .has_backward_weight = true, .defer_weight = true,
                                   KERNELS(scale_forward, scale_input, scale_weight)};
static const struct op op_sum = {.name = "sum", .shape = sum_shape, .no_grad_out = OUT(0), .has_backward_input = true,
                                 KERNELS(sum_forward, sum_input, NULL)};

/* ---- a test bench of one rank ---- */
enum { MAX_EVENTS = 64 };
struct seen { enum row_kind kind; int param; bool final; double first; };   /* first: element 0 of the buffer */

static struct bench {
    struct program program;
    struct chunk chunk;
    struct schedule schedule;
    struct memory_plan memory;
    struct arena arenas[N_ROLES];
    struct mesh mesh;
    struct exec exec;
    double w[TINY_N];
    struct seen seen[MAX_EVENTS];
    int n_seen, fetched[MAX_EVENTS], n_fetched;
} b;

static int32_t token(int microbatch, int i) { return (microbatch + 2 * i) % 5 + 1; }

static enum status fetch(void *self, int microbatch, int32_t *const data[N_DATA]) {
    int32_t *tokens = data[DATA_TOKENS];
    (void)self;
    assert_null(data[DATA_TARGETS]);
    int64_t n = type_n(&b.program.slots[b.program.data[DATA_TOKENS]].type);
    for (int i = 0; i < n; i++) tokens[i] = token(microbatch, i);
    b.fetched[b.n_fetched++] = microbatch;
    return OK;
}

/* Fill a gathered weight, as zero does, and poison it when it is released. */
static enum status param_event(void *self, const struct param_event *e) {
    (void)self;
    if (b.program.params[e->param].weight_residence == RESIDENT_OWN && e->kind == ROW_PARAM_NEEDED)
        memcpy(e->buffer, b.w, sizeof b.w);
    b.seen[b.n_seen++] = (struct seen){e->kind, e->param, e->final, *(double *)e->buffer};
    return OK;
}

static void build(void) {
    struct program *p = &b.program;
    struct type tokens = tiny_type();
    tokens.dtype = INT32;
    program_init(p);
    p->data[DATA_TOKENS] = program_add_slot(p, "data", "tokens");
    p->slots[p->data[DATA_TOKENS]].type = tokens;
    program_add_block(p, "a", NONE, true);
    int w = tiny_param(p, "w");
    tiny_add(p, &op_square, "z", tiny_add(p, &op_source, "y", p->data[DATA_TOKENS], NONE, w), NONE, NONE);
    tiny_block(p, "b");
    p->loss = tiny_add(p, &op_sum, "loss", tiny_add(p, &op_scale, "u", p->blocks[0].out[0], NONE, w), NONE, NONE);
    p->blocks[1].out[0] = NONE;
}

static void place_params(void) {
    for (int i = 0; i < b.program.n_params; i++) {
        struct param *w = &b.program.params[i];
        w->weight = arena_at(&b.arenas[ROLE_PARAM], w->arrays[ARRAY_WEIGHT].offset);
        w->grad = arena_at(&b.arenas[ROLE_GRAD], param_grad_offset(w));
        if (w->weight_residence == RESIDENT_WHOLE) memcpy(w->weight, b.w, sizeof b.w);
        if (w->grad_residence == RESIDENT_WHOLE) memset(w->grad, 0, sizeof b.w);
    }
}

/* Plan and allocate, so that the bench can run. b.program and b.schedule must be set. */
static void prepare(void) {
    assert_ok(program_infer(&b.program));
    assert_ok(chunk_lower(&b.program, 0, b.schedule.split_weight, &b.chunk));
    assert_ok(gradients_mark(&b.program, &b.chunk, &b.schedule));
    memory_plan_params(&b.program, &b.schedule, &b.memory);
    assert_ok(memory_plan_rest(&b.program, &b.chunk, &b.schedule, 0, 0, &b.memory));
    for (enum role r = 0; r < N_ROLES; r++)
        assert_ok(arena_init(&b.arenas[r], device_cpu(), r, b.memory.bytes[TIER_DEVICE][r], true));
    for (int i = 0; i < TINY_N; i++) b.w[i] = 0.5 + i / 8.0;
    place_params();
    b.mesh.place = mesh_place_of(&(struct mesh_sizes){.dp = 1}, 0);
    for (int a = 0; a < N_MESH_AXES; a++) b.mesh.group[a] = group_self();
    b.exec = (struct exec){.program = &b.program, .chunks = &b.chunk, .memory = &b.memory, .mesh = &b.mesh,
                           .arenas = b.arenas,
                           .device = device_cpu(), .hooks = {NULL, fetch, param_event}, .workers = 1, .loss_weight = 1,
                           .loss_scale = 1, .micro = 1};
    assert_ok(exec_init(&b.exec));
}

static int start(void **state) {
    (void)state;
    memset(&b, 0, sizeof b);
    build();
    return schedule_accumulate(3, &b.schedule) != OK;
}
static int finish(void **state) {
    (void)state;
    exec_fini(&b.exec);
    for (enum role r = 0; r < N_ROLES; r++)
        if (b.arenas[r].base) arena_fini(&b.arenas[r]);
    memory_plan_fini(&b.memory);
    schedule_fini(&b.schedule);
    chunk_fini(&b.chunk);
    program_fini(&b.program);
    return 0;
}
#define exec_test(f) cmocka_unit_test_setup_teardown(f, start, finish)

static double expected_loss(void) {
    double sum = 0;
    for (int m = 0; m < b.schedule.n_microbatches; m++)
        for (int i = 0; i < TINY_N; i++) sum += pow(b.w[i], 3) * token(m, i) * token(m, i) / 2;
    return sum;
}
static double expected_grad(int m, int i) { return 3 * b.w[i] * b.w[i] * token(m, i) * token(m, i) / 2; }

/* All numbers and their products are eighths of small integers, so there is no rounding, and the tolerance is 0. */
static void check_gradient(double scale) {
    const double *grad = b.program.params[0].grad;
    for (int i = 0; i < TINY_N; i++) {
        double sum = 0;
        for (int m = 0; m < b.schedule.n_microbatches; m++) sum += expected_grad(m, i);
        assert_close(grad[i], scale * sum, 0);
    }
}

/* ---- numbers ---- */
TEST(test_loss_and_gradient_are_sums_over_microbatches) {
    prepare();
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    assert_close(b.exec.sums[SUM_LOSS], expected_loss(), 0);
    check_gradient(1);
}

TEST(test_grad_scale_multiplies_gradients_and_not_the_loss) {
    prepare();
    b.exec.loss_weight = 0.5;
    b.exec.loss_scale = 8;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    assert_close(b.exec.sums[SUM_LOSS], 0.5 * expected_loss(), 0);
    check_gradient(4);
}

/* Dead values are overwritten with NaN, so equal numbers prove that no row reads a dead value. */
TEST(test_painting_changes_no_number) {
    prepare();
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    assert_close(b.exec.sums[SUM_LOSS], expected_loss(), 0);
    check_gradient(1);
}

TEST(test_split_weight_gives_the_same_gradient) {
    b.schedule.split_weight = true;
    for (int m = 0; m < 3; m++) schedule_add(&b.schedule, ACTION_W, 0, m);
    prepare();
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    check_gradient(1);
}

/* Without backward no value is kept, so all microbatches use one frame, and no gradient changes. */
TEST(test_evaluation_runs_forward_only) {
    prepare();
    struct schedule forward = {.n_microbatches = 3};
    for (int m = 0; m < 3; m++) schedule_add(&forward, ACTION_F, 0, m);
    enum status status = exec_run(&b.exec, &forward, false);
    schedule_fini(&forward);
    assert_ok(status);
    assert_close(b.exec.sums[SUM_LOSS], expected_loss(), 0);
    for (int i = 0; i < TINY_N; i++) assert_close(((double *)b.program.params[0].grad)[i], 0, 0);
}

TEST(test_every_microbatch_is_fetched_once_in_order) {
    prepare();
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    assert_int_equal(b.n_fetched, 3);
    for (int m = 0; m < 3; m++) assert_int_equal(b.fetched[m], m);
}

/* ---- a kernel gets only the operands that its op declares ---- */
static const struct op *true_op;
static struct call calls[N_ROW_KINDS];   /* the last call of each kind, with its operands */

static enum status spy(const struct call *c, enum row_kind kind) {
    calls[kind] = *c;
    struct op_kernels k = true_op->kernels[DEVICE_CPU][FP64];
    return kind == ROW_FORWARD ? k.forward(c) : kind == ROW_BACKWARD_INPUT ? k.backward_input(c) : k.backward_weight(c);
}
static enum status spy_forward(const struct call *c) { return spy(c, ROW_FORWARD); }
static enum status spy_input(const struct call *c) { return spy(c, ROW_BACKWARD_INPUT); }
static enum status spy_weight(const struct call *c) { return spy(c, ROW_BACKWARD_WEIGHT); }

static void spy_on(int step) {
    static struct op op;
    true_op = b.program.steps[step].op;
    op = *true_op;
    op.kernels[DEVICE_CPU][FP64] = (struct op_kernels){spy_forward, spy_input, spy_weight};
    b.program.steps[step].op = &op;
    memset(calls, 0, sizeof calls);
}

TEST(test_an_op_gets_what_it_declares_and_null_for_the_rest) {
    enum { SCALE = 2 };
    spy_on(SCALE);
    prepare();
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    const struct call *f = &calls[ROW_FORWARD], *i = &calls[ROW_BACKWARD_INPUT], *w = &calls[ROW_BACKWARD_WEIGHT];
    assert_true(f->in[0].data && f->out[0].data && f->weight[0].data);
    assert_true(!f->dout[0].data && !f->din[0].data && !f->dweight[0].data && !f->work);
    assert_true(i->weight[0].data && i->dout[0].data && i->din[0].data);          /* bi_weight */
    assert_true(!i->in[0].data && !i->out[0].data && !i->dweight[0].data);
    assert_true(w->in[0].data && w->dout[0].data && w->dweight[0].data);          /* bw_in */
    assert_true(!w->weight[0].data && !w->out[0].data && !w->din[0].data);
    assert_true(i->in[0].type && w->out[0].type && f->din[0].type);               /* types are always there */
}

/* Dropout draws by global sample. If n replicas share the batch, microbatch m of replica r starts at sample
 * (m n + r) micro. Here two of six replicas only serve. */
TEST(test_calls_know_their_place_in_the_global_batch) {
    spy_on(1);
    prepare();
    b.mesh.place.n.dp = 6;
    b.exec.workers = 4;
    b.mesh.place.rank.dp = 3;
    b.exec.micro = 5;
    b.exec.n_step = 17;
    b.exec.seed = 99;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    const struct call *c = &calls[ROW_BACKWARD_INPUT];
    assert_int_equal(c->first_sample, (2 * 4 + 3) * 5);
    assert_true(c->training && c->n_step == 17 && c->seed == 99);
    assert_int_equal(calls[ROW_FORWARD].first_sample, c->first_sample);
}

/* ---- painting ---- */
static const struct value *value_named(const char *name, enum tape_kind tape, int *v) {
    for (*v = 0; *v < b.chunk.n_values; ++*v)
        if (!strcmp(b.chunk.values[*v].name, name) && b.chunk.values[*v].birth.tape == tape) return &b.chunk.values[*v];
    fail_msg("no value is called %s", name);
    return NULL;
}

/* y is kept for z's backward. The test declares it dead one action too early. With paint the loss shows the mistake;
 * without paint it does not. */
TEST(test_a_read_after_death_is_nan_when_painted) {
    int v;
    prepare();
    int at = value_named("a.y", TAPE_F, &v)->storage;
    struct storage *y = &b.chunk.storages[at];
    struct row *early = &b.chunk.tapes[TAPE_B].rows[y->death.row - 1];
    assert_int_equal(storage_class(y), FRAME_FB);
    y->next_dying = early->dying, early->dying = at;                 /* still in B, so the frame does not move */
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    check_gradient(1);
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    for (int i = 0; i < TINY_N; i++) assert_true(isnan(((double *)b.program.params[0].grad)[i]));
}

TEST(test_dead_values_hold_the_pattern_of_death) {
    int v;
    prepare();
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    const struct storage *y = &b.chunk.storages[value_named("a.y", TAPE_F, &v)->storage];
    const uint64_t *words = arena_at(&b.arenas[ROLE_ACT], memory_frame(&b.memory, FRAME_FB, 0, 0) + y->offset);
    for (int i = 0; i < TINY_N; i++) assert_true(words[i] == ARENA_DEAD);
}

/* ---- the time line of memory, compared with real memory ----
 * With painting, a word of the arena that is neither fresh nor dead is alive. The test counts such words after every
 * kernel, when the row's new values are written, and its dying values are not painted yet. */
enum { MAX_KERNELS = 64 };
static const struct op *true_ops[8];
static struct op counting_ops[8];
static int64_t counted[MAX_KERNELS];
static int n_counted;

/* The loss dies after the last row, where it is read, and is not painted. The counter of the next kernel paints it. */
static uint64_t *dead_loss;

static enum status count_behind(const struct call *c, enum row_kind kind) {
    struct op_kernels k = true_ops[c->step - b.program.steps]->kernels[DEVICE_CPU][FP64];
    if (dead_loss) *dead_loss = ARENA_DEAD;
    dead_loss = kind == ROW_FORWARD && c->step == &b.program.steps[b.program.n_steps - 1] ? c->out[0].data : NULL;
    TRY((kind == ROW_FORWARD ? k.forward : kind == ROW_BACKWARD_INPUT ? k.backward_input : k.backward_weight)(c));
    const uint64_t *words = (const uint64_t *)b.arenas[ROLE_ACT].base;
    int64_t alive = 0;
    for (int64_t i = 0; i < b.memory.bytes[TIER_DEVICE][ROLE_ACT] / 8; i++)
        alive += words[i] != ARENA_CANARY && words[i] != ARENA_DEAD;
    counted[n_counted++] = 8 * alive;
    return OK;
}
static enum status count_forward(const struct call *c) { return count_behind(c, ROW_FORWARD); }
static enum status count_input(const struct call *c) { return count_behind(c, ROW_BACKWARD_INPUT); }
static enum status count_weight(const struct call *c) { return count_behind(c, ROW_BACKWARD_WEIGHT); }

/* Uses an even number of tokens, because only whole words are painted. */
static void count_everywhere(void) {
    b.program.slots[b.program.data[DATA_TOKENS]].type.shape.axis[0] = axis_whole('C', TINY_N + 1);
    for (int i = 0; i < b.program.n_steps; i++) {
        true_ops[i] = b.program.steps[i].op;
        counting_ops[i] = *true_ops[i];
        counting_ops[i].kernels[DEVICE_CPU][FP64] = (struct op_kernels){count_forward, count_input, count_weight};
        b.program.steps[i].op = &counting_ops[i];
    }
    n_counted = 0;
    dead_loss = NULL;
}

static void check_time_line(void) {
    struct memory_timeline t;
    assert_ok(memory_timeline_make(&b.program, &b.chunk, &b.schedule, &b.memory, &t));
    int n = 0;
    for (int i = 0; i < t.n; i++) {
        const struct memory_point *p = &t.points[i];
        if (b.chunk.tapes[b.schedule.actions[p->action].kind].rows[p->row].kind >= ROW_WAIT) continue;
        assert_true(n < n_counted);
        assert_int_equal(p->alive[ROLE_ACT], counted[n++]);
    }
    assert_int_equal(n, n_counted);
    assert_true(memory_timeline_peak(&t, ROLE_ACT) <= b.memory.bytes[TIER_DEVICE][ROLE_ACT]);
    memory_timeline_fini(&t);
}

TEST(test_time_line_of_memory_is_what_is_alive) {
    count_everywhere();
    prepare();
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    assert_int_equal(n_counted, 3 * (4 + 5));                        /* per microbatch: four forward, five backward */
    check_time_line();
}

/* Three microbatches in flight, weight gradients as actions of their own, and actions out of order. */
TEST(test_time_line_of_memory_counts_frames) {
    static const struct { enum action_kind kind; int microbatch; } actions[] = {
        {ACTION_F, 0}, {ACTION_F, 1}, {ACTION_B, 1}, {ACTION_F, 2}, {ACTION_B, 0}, {ACTION_W, 1}, {ACTION_B, 2},
        {ACTION_W, 2}, {ACTION_W, 0}};
    schedule_fini(&b.schedule);
    b.schedule = (struct schedule){.n_microbatches = 3, .split_weight = true};
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++)
        schedule_add(&b.schedule, actions[i].kind, 0, actions[i].microbatch);
    count_everywhere();
    prepare();
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    check_time_line();
}

/* ---- events ---- */
static int nth_ready(int n) {
    for (int i = 0; i < b.n_seen; i++)
        if (b.seen[i].kind == ROW_GRAD_READY && n-- == 0) return i;
    return -1;
}

/* With two uses in each of three microbatches, the gradient is ready six times, and final only the last time. */
static void check_final_is_last(int n_ready) {
    for (int i = 0; i < n_ready; i++) {
        assert_true(nth_ready(i) >= 0);
        assert_int_equal(b.seen[nth_ready(i)].final, i == n_ready - 1);
    }
    assert_int_equal(nth_ready(n_ready), -1);
}

TEST(test_gradient_is_final_after_all_microbatches_and_uses) {
    prepare();
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    check_final_is_last(6);
    double final = b.seen[nth_ready(5)].first;                       /* the final gradient */
    assert_close(final, *(double *)b.program.params[0].grad, 0);
    b.n_seen = 0;
    assert_ok(exec_run(&b.exec, &b.schedule, true));                 /* the same in the next step */
    check_final_is_last(6);
}

TEST(test_gradient_is_final_after_the_last_weight_action) {
    b.schedule.split_weight = true;
    for (int m = 0; m < 3; m++) schedule_add(&b.schedule, ACTION_W, 0, m);
    prepare();
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    check_final_is_last(6);
}

TEST(test_other_events_are_never_final) {
    prepare();
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    int others = 0;
    for (int i = 0; i < b.n_seen; i++) {
        if (b.seen[i].kind == ROW_GRAD_READY) continue;
        assert_false(b.seen[i].final);
        others++;
    }
    assert_int_equal(others, 3 * 2 * (2 + 1));   /* needed and done: by both uses in F; in B by the use whose dx
                                                  * reads w */
}

/* Each microbatch has its own gradient, in a cleared buffer; the event's hook fills the weight. */
TEST(test_sharded_param_goes_through_buffers) {
    struct param *w = &b.program.params[0];
    w->weight_residence = w->grad_residence = RESIDENT_OWN;
    w->own_n = w->shard_n = w->padded_n = TINY_N;
    prepare();
    b.exec.paint = true;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    assert_close(b.exec.sums[SUM_LOSS], expected_loss(), 0);
    for (int m = 0; m < 3; m++) {                                    /* first the head's part, then the source's */
        double sum = b.seen[nth_ready(2 * m)].first + b.seen[nth_ready(2 * m + 1)].first;
        assert_close(sum, expected_grad(m, 0), 0);
    }
}

/* The arena holds other numbers before the step. */
TEST(test_a_gradient_that_no_row_adds_to_is_zero) {
    static struct op frozen[3];
    for (int i = 0; i < 3; i += 2) {
        frozen[i] = *b.program.steps[i].op;
        frozen[i].has_backward_weight = false;
        b.program.steps[i].op = &frozen[i];
    }
    prepare();
    double *grad = b.program.params[0].grad;
    for (int i = 0; i < TINY_N; i++) grad[i] = 7;
    assert_ok(exec_run(&b.exec, &b.schedule, true));
    for (int i = 0; i < TINY_N; i++) assert_close(grad[i], 0, 0);
}

/* ---- failures ---- */
static enum status refuse(const struct call *c) { return FAIL(E_NUMERIC, "%s does not want to", c->step->op->name); }

TEST(test_a_failing_kernel_ends_the_step) {
    static struct op op;
    op = op_scale;
    op.kernels[DEVICE_CPU][FP64].backward_weight = refuse;
    b.program.steps[2].op = &op;
    prepare();
    assert_fails(exec_run(&b.exec, &b.schedule, true), E_NUMERIC, "scale does not want to");
    assert_int_equal(b.n_fetched, 1);                                /* the second microbatch does not start */
}

TESTS(exec_test(test_loss_and_gradient_are_sums_over_microbatches),
      exec_test(test_grad_scale_multiplies_gradients_and_not_the_loss), exec_test(test_painting_changes_no_number),
      exec_test(test_split_weight_gives_the_same_gradient), exec_test(test_evaluation_runs_forward_only),
      exec_test(test_every_microbatch_is_fetched_once_in_order),
      exec_test(test_an_op_gets_what_it_declares_and_null_for_the_rest),
      exec_test(test_calls_know_their_place_in_the_global_batch),
      exec_test(test_a_read_after_death_is_nan_when_painted), exec_test(test_dead_values_hold_the_pattern_of_death),
      exec_test(test_time_line_of_memory_is_what_is_alive), exec_test(test_time_line_of_memory_counts_frames),
      exec_test(test_gradient_is_final_after_all_microbatches_and_uses),
      exec_test(test_gradient_is_final_after_the_last_weight_action), exec_test(test_other_events_are_never_final),
      exec_test(test_sharded_param_goes_through_buffers), exec_test(test_a_gradient_that_no_row_adds_to_is_zero),
      exec_test(test_a_failing_kernel_ends_the_step))
