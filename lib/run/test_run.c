/* ranks: 1 2  device: cpu
 *
 * A whole step of the whole model, in every layout of the present ranks. Its gradients must be those of its loss, its
 * samples must be the right ones, and it must stop before a NaN changes a weight. */
#include "driver/recipe.h"
#include "lib/run/run.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- layouts: serial on one rank; dp, tp, pp on two ---- */
static struct plan nth_layout(int n) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.global_batch = 4;
    p.micro_batch = 1;
    int64_t *const axes[] = {&p.mesh.dp, &p.mesh.tp, &p.mesh.pp};
    *axes[n] = comm_world_size();
    return p;
}
static int n_layouts(void) { return comm_world_size() == 1 ? 1 : 3; }

/* Initial weights are so small that attention is nearly uniform and logits are nearly equal. Weights eight times larger
 * make every part of the model matter. */
static void sharpen(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; w->present && w->decay && k < type_n(&w->type); k++) ((double *)w->weight)[k] *= 8;
    }
}

/* @collective{world} */
static enum status create(struct run *r, struct plan *p, const struct data_file *file) {
    struct data_split train, val;
    memset(r, 0, sizeof *r);
    TRY(plan_settle(p, plan_ranks(p)));
    TRY(run_create(r, &train_recipe, p, false));
    TRY(data_split_tail(file, p->seq, 0, &train, &val));
    run_set_data(r, &train, &val);
    sharpen(r);
    return OK;
}

static struct data_file *demo(void) {
    static struct data_file *file;
    if (!file) assert_ok(data_open("configs/demo.txt", &file));
    return file;
}

/* ---- gradients against central differences, dropout on ----
 *
 *   d = (loss(w + h) - loss(w - h)) / 2h
 *
 * Rounding: the loss is about 10, with a relative error of some 10 u, u = 2^-53: 10 x 10 u / h = 1e-9.
 * Truncation: h^2 / 6 times the third derivative. If layernorm divides by w, that is g / w^2 for the first derivative
 * g; with the embedding's w = 0.2 it is h^2 / 0.24 |g| = 4e-10 |g|. A wrong formula is off by a large part of g. */
enum { ELEMENTS = 5 };
static const double H = 1e-5;
static double bound(double grad) { return 1e-9 + 1e-8 * fabs(grad); }

/* Repeat step 0 with the same data and dropout. The learning rate is 0, so weights stay. */
static enum status step_again(struct run *r) {
    r->n_step = 0;
    return run_step(r);
}

/* The index on this rank of element `global` of the param; -1: this rank does not hold it. */
static int64_t local_index(const struct param *w, int64_t global) {
    for (int64_t i = 0; w->present && i < type_n(&w->type); i++)
        if (shape_global_index(&w->type.shape, i) == global) return i;
    return -1;
}

static enum status loss_with(struct run *r, const struct param *w, int64_t at, double nudge, double *loss) {
    double *x = at < 0 ? NULL : (double *)w->weight + at, keep = x ? *x : 0;
    if (x) *x += nudge;
    enum status status = step_again(r);
    if (x) *x = keep;
    *loss = r->last.loss;
    return status;
}

/* All holders of an element have the same gradient of it. Every rank gets the holders' mean. */
static enum status gradient_of(const struct run *r, const double *grads, const struct param *w, int64_t at,
                               double *grad) {
    double sum[2] = {0, at >= 0};
    if (at >= 0) sum[0] = grads[param_grad_offset(w) / 8 + at];
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], sum, 2, FP64, COMM_SUM));
    *grad = sum[0] / sum[1];
    return OK;
}

static enum status element_error(struct run *r, const double *grads, const struct param *w, int64_t global,
                                 double *error) {
    int64_t at = local_index(w, global);
    double grad = 0, above = 0, below = 0;
    TRY(gradient_of(r, grads, w, at, &grad));
    TRY(loss_with(r, w, at, H, &above));
    TRY(loss_with(r, w, at, -H, &below));
    double excess = fabs(grad - (above - below) / (2 * H)) / bound(grad);
    if (!(excess <= *error)) *error = excess;
    return OK;
}

/* Check ELEMENTS elements of every param; *error is in units of the bound. grads: a copy of the gradient arena. */
static enum status params_errors(struct run *r, const double *grads, double *error) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        int64_t n = shape_global_n(&w->type.shape);
        for (int64_t k = 0; k < ELEMENTS; k++) TRY(element_error(r, grads, w, (5 + k * (n / ELEMENTS + 1)) % n, error));
    }
    return OK;
}

static enum status gradient_errors(struct run *r, double *error) {
    const struct arena *a = &r->arenas[TIER_DEVICE][ROLE_GRAD];
    TRY(step_again(r));
    double *grads = malloc((size_t)a->bytes);
    memcpy(grads, a->base, (size_t)a->bytes);
    enum status status = params_errors(r, grads, error);
    free(grads);
    return status;
}

TEST(test_gradients_are_those_of_the_loss) {
    for (int n = 0; n < n_layouts(); n++) {
        struct plan p = nth_layout(n);
        struct run r;
        double error = 0;
        p.lr = p.min_lr = p.weight_decay = 0;
        enum status status = create(&r, &p, demo());
        if (status == OK) status = gradient_errors(&r, &error);
        run_destroy(&r);
        error = agree_max(error);
        assert_ok(status);
        assert_close(error, 0, 1);
    }
}

/* ---- the order of data ---- */
enum { T = 8, SAMPLES = 20, BATCH = 8, STEPS = 5 };   /* 40 draws are exactly two epochs; batch 2 lies in both */

/* Write a text whose sample i begins with byte 1 + i, so that a batch shows its samples. */
static enum status open_numbered(struct data_file **out) {
    const char *path = test_path("numbered.txt");
    FILE *f = fopen(path, "wb");
    if (!f) return FAIL(E_IO, "cannot write %s", path);
    for (int i = 0; i < SAMPLES * T + 1; i++) fputc(i % T ? 'a' : 1 + i / T, f);
    fclose(f);
    return data_open(path, out);
}

/* A hook between the executor and the run counts the fetched samples: seen[step][sample]. */
static struct { struct run *run; struct exec_hooks inner; double seen[STEPS][SAMPLES]; } listener;

static enum status listen(void *self, int microbatch, int32_t *const data[N_DATA]) {
    struct run *r = listener.run;
    const int32_t *tokens = data[DATA_TOKENS];
    TRY(listener.inner.fetch(self, microbatch, data));
    if (!tokens || r->plan.place.rank.tp != 0) return OK;            /* tp ranks share their samples */
    for (int64_t b = 0; b < r->plan.micro_batch; b++) listener.seen[r->n_step][tokens[b * T] - 1]++;
    return OK;
}

static enum status train_and_listen(struct run *r) {
    memset(&listener, 0, sizeof listener);
    listener.run = r;
    listener.inner = r->exec.hooks;
    r->exec.hooks.fetch = listen;
    for (int i = 0; i < STEPS; i++) TRY(run_step(r));
    return comm_all_reduce(r->mesh.group[AXIS_MESH], listener.seen, STEPS * SAMPLES, FP64, COMM_SUM);
}

/* Every layout draws sample number s of the run exactly once. In two epochs each sample comes twice, and its second
 * time is after the first epoch. */
static void check_order(const struct run *r) {
    double expected[STEPS][SAMPLES] = {{0}}, total[SAMPLES] = {0}, first_epoch[SAMPLES] = {0};
    for (int s = 0; s < STEPS * BATCH; s++) {
        int64_t sample = data_shuffled(&r->train, (uint64_t)r->plan.seed, s);
        expected[s / BATCH][sample]++;
        total[sample]++;
        if (s < SAMPLES) first_epoch[sample]++;
    }
    assert_memory_equal(listener.seen, expected, sizeof expected);
    for (int i = 0; i < SAMPLES; i++) assert_true(total[i] == 2 && first_epoch[i] == 1);
}

TEST(test_each_sample_of_an_epoch_is_seen_once) {
    struct data_file *file = NULL;
    enum status opened = open_numbered(&file);
    for (int n = 0; n < n_layouts() && agree_all(opened == OK); n++) {
        struct plan p = nth_layout(n);
        struct run r;
        p.vocab = 256;
        p.global_batch = BATCH;
        p.micro_batch = 2;
        enum status status = create(&r, &p, file);
        if (status == OK) status = train_and_listen(&r);
        bool well = agree_all(status == OK);
        if (well) check_order(&r);
        run_destroy(&r);
        assert_ok(status);
    }
    data_close(&file);
    assert_ok(opened);
}

/* ---- non-finite numbers ---- */
static uint64_t hash_arena(uint64_t h, const struct arena *a) {      /* FNV-1a */
    for (int64_t i = 0; i < a->bytes; i++) h = (h ^ (unsigned char)a->base[i]) * 1099511628211u;
    return h;
}
static uint64_t hash_state(const struct run *r) {
    const struct arena *arenas = r->arenas[TIER_DEVICE];
    return hash_arena(hash_arena(1469598103934665603u, &arenas[ROLE_PARAM]), &arenas[ROLE_OPTIM]);
}

struct outcome { enum status status; bool untouched, says; int64_t n_step; };

/* Run a step that must fail, and check this rank's error and state. */
static struct outcome failing_step(struct run *r, const char *what) {
    uint64_t before = hash_state(r);
    struct outcome o = {.status = run_step(r), .n_step = r->n_step};
    o.says = strstr(status_text(), what) && strstr(status_text(), "of step 2") &&
             strstr(status_text(), "no weight was changed");
    o.untouched = hash_state(r) == before;
    status_clear();
    return o;
}

/* Set one weight of the last rank to NaN, in its first param. */
static void poison_weight(struct run *r) {
    for (int i = 0; i < r->program.n_params && comm_world_rank() == comm_world_size() - 1; i++) {
        const struct param *w = &r->program.params[i];
        if (!w->present || !strcmp(w->name, "embed.wte")) continue;  /* a batch reads only some rows of wte */
        ((double *)w->weight)[1] = NAN;
        return;
    }
}

static enum status poison_gradient(struct run *r, void *self, const struct event *e) {
    (void)self, (void)e;
    const struct param *w = &r->program.params[r->program.n_params - 1];
    if (w->present && w->counted && r->n_step == 1) ((double *)w->grad)[0] = INFINITY;
    return OK;
}

/* Run a good step, so that weights and moments are not trivial, then a bad one. */
static enum status good_then_bad(struct run *r, bool in_gradient, struct outcome *o) {
    if (in_gradient) TRY(run_subscribe(r, EVENT_GRAD_UNSCALE, poison_gradient, NULL));
    TRY(run_step(r));
    if (!in_gradient) poison_weight(r);
    *o = failing_step(r, in_gradient ? "gradient norm" : "the loss");
    return OK;
}

/* Every rank must stop, even if its own numbers are finite, because a rank that went on alone would wait for the others
 * forever. */
static void check_stops(bool in_gradient) {
    for (int n = 0; n < n_layouts(); n++) {
        struct plan p = nth_layout(n);
        struct run r;
        struct outcome o = {0};
        enum status status = create(&r, &p, demo());
        if (status == OK) status = good_then_bad(&r, in_gradient, &o);
        run_destroy(&r);
        bool well = agree_all(status == OK && o.status == E_NUMERIC);
        assert_ok(status);
        assert_int_equal(o.status, E_NUMERIC);
        assert_true(o.says && o.untouched && well);
        assert_int_equal(o.n_step, 1);
    }
}

TEST(test_a_loss_that_is_no_number_changes_no_weight) {
    check_stops(false);
}

TEST(test_a_norm_that_is_no_number_changes_no_weight) {
    check_stops(true);
}

/* Scratch is planned per thread; a run with more threads would write past it. */
TEST(test_more_threads_than_planned_are_refused) {
    struct run r;
    struct plan p = parity_plan();
    int planned = omp_get_max_threads();
    p.threads = planned;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    assert_ok(run_check_threads(&r));
    omp_set_num_threads(planned + 1);
    enum status more = run_check_threads(&r);
    omp_set_num_threads(planned);
    run_destroy(&r);
    assert_fails(more, E_INTERNAL, "scratch was planned for");
}

/* A rank's memory is a function of its plan alone, not of this process's threads or of earlier compilations. */
TEST(test_compiling_is_a_function_of_the_plan) {
    static const struct { int planned, running; } cases[] = {{4, 1}, {1, 1}, {0, 1}, {4, 3}, {1, 3}, {0, 3}};
    int64_t work[6];
    int running = omp_get_max_threads();
    for (int i = 0; i < 6; i++) {
        struct run r;
        struct plan p = parity_plan();
        p.threads = cases[i].planned;
        p.seq = 128;
        p.loss_chunk = 16;                                           /* attention needs the most scratch */
        omp_set_num_threads(cases[i].running);
        enum status status = plan_settle(&p, 1);
        if (status == OK) status = run_compile(&r, &train_recipe, &p, 0, NULL, NULL);
        work[i] = status == OK ? r.memory.bytes[TIER_DEVICE][ROLE_WORK] : -1;
        run_destroy(&r);
        omp_set_num_threads(running);
        assert_ok(status);
    }
    assert_true(work[0] > work[1]);
    for (int i = 0; i < 3; i++) assert_int_equal(work[i], work[i + 3]);
    assert_int_equal(work[2], work[1]);                              /* threads 0 counts as 1 */
}

TEST(test_a_plan_that_is_not_settled_is_refused) {
    struct run r;
    struct plan p = parity_plan();
    enum status status = run_compile(&r, &train_recipe, &p, 0, NULL, NULL);
    run_destroy(&r);
    assert_fails(status, E_INTERNAL, "plan_settle");
}

TESTS(unit_test(test_gradients_are_those_of_the_loss), unit_test(test_each_sample_of_an_epoch_is_seen_once),
      unit_test(test_a_loss_that_is_no_number_changes_no_weight),
      unit_test(test_a_norm_that_is_no_number_changes_no_weight), unit_test(test_more_threads_than_planned_are_refused),
      unit_test(test_compiling_is_a_function_of_the_plan), unit_test(test_a_plan_that_is_not_settled_is_refused))
