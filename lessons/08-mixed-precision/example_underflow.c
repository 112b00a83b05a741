/* ranks: 1
 *
 * The error of one real step's gradients when backward runs in 16 bits, for many loss scales S. A small GPT reads its
 * first batch of configs/demo.txt; its gradients in fp32 are the truth t. In 16 bits every gradient g is S t, rounded,
 * as are the gradients of activations. The program prints for each S:
 *
 *   zero       the share of weights whose gradient is exactly zero, and is not zero in fp32
 *   overflow   the share of weights whose gradient is infinite or NaN
 *   error      |g / S - t| / |t|, over all weights at once
 *
 * The loss is a mean over 512 tokens. A mean over n times more tokens has gradients n times smaller at every token, so
 * S = 2^-12 shows a batch of two million tokens without a loss scale. The exit code is 0 if all claims hold. */
#include "driver/recipe.h"
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

struct gradients { int64_t n; double *x; };

/* After the first step's backward, copy all gradients in the order of the parameters. */
static enum status take(struct run *r, void *self, const struct event *e) {
    (void)e;
    struct gradients *g = self;
    g->n = 0;
    for (int i = 0; i < r->program.n_params; i++) g->n += r->program.params[i].own_n;
    g->x = malloc((size_t)g->n * sizeof *g->x);
    if (!g->x) return FAIL(E_MEMORY, "no memory for %lld gradients", (long long)g->n);
    double *to = g->x;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (int64_t k = 0; k < w->own_n; k++)
            *to++ = dtype_get(param_own_grad(w), w->grad_type.dtype, k) / r->exec.loss_scale;
    }
    return OK;
}

static enum status one_step(const char *precision, double S, struct data_file *text, struct gradients *out) {
    static const char *const sizes[][2] = {{"layers", "2"}, {"hidden", "64"}, {"heads", "2"}, {"seq", "32"},
                                           {"vocab", "256"},
                                           {"global-batch", "16"}, {"device", "cpu"}, {"threads", "1"}};
    static struct plan plan;
    static struct run run;
    struct options *options;
    struct data_split train, val;
    char scale[40];
    snprintf(scale, sizeof scale, "%.17g", S);
    TRY(recipe_options_create(NULL, &plan, &options));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        TRY(options_set(options, sizes[i][0], sizes[i][1], FROM_COMMAND_LINE));
    TRY(options_set(options, "precision", precision, FROM_COMMAND_LINE));
    if (S != 0) TRY(options_set(options, "loss-scale", scale, FROM_COMMAND_LINE));
    options_destroy(&options);
    TRY(plan_settle(&plan, 1));
    TRY(data_split_tail(text, plan.seq, 0, &train, &val));
    TRY(run_create(&run, &train_recipe, &plan, WATCH_NOTHING));
    run_set_data(&run, &train, &val);
    TRY(run_subscribe(&run, EVENT_GRAD_COMBINE, take, out));
    TRY(run_step(&run));
    run_destroy(&run);
    return OK;
}

struct damage { double zero, overflow, error; };
static struct damage compare(const struct gradients *g, const struct gradients *t) {
    double zero = 0, overflow = 0, squares = 0, of_truth = 0;
    for (int64_t i = 0; i < t->n; i++) {
        zero += g->x[i] == 0 && t->x[i] != 0;
        overflow += !isfinite(g->x[i]);
        squares += (g->x[i] - t->x[i]) * (g->x[i] - t->x[i]);
        of_truth += t->x[i] * t->x[i];
    }
    return (struct damage){zero / (double)t->n, overflow / (double)t->n, sqrt(squares / of_truth)};
}

static int wrong;
static void claim(const char *text, bool holds) {
    printf("%s %s\n", holds ? "yes:" : "NO: ", text);
    wrong += !holds;
}

static enum status show(const char *precision, const char *name, double S, struct data_file *text,
                        const struct gradients *truth, struct damage *out) {
    struct gradients g = {0};
    TRY(one_step(precision, S, text, &g));
    *out = compare(&g, truth);
    free(g.x);
    printf("%-4s  %-7s %6.1f %%  %8.1f %%   ", precision, name, 100 * out->zero, 100 * out->overflow);
    if (isfinite(out->error)) printf("%.4f\n", out->error);
    else printf("-\n");
    return OK;
}

static enum status underflow(void) {
    struct data_file *text;
    struct gradients truth = {0};
    struct damage d, at_12 = {0}, at_16 = {0}, at_40 = {0};
    TRY(data_open("configs/demo.txt", &text));
    TRY(one_step("fp32", 0, text, &truth));
    printf("%lld gradients\n      S          zero    overflow   error\n", (long long)truth.n);
    for (int power = -24; power <= 40; power += power < 16 ? 4 : 8) {
        char name[16];
        snprintf(name, sizeof name, "2^%d", power);
        TRY(show("fp16", name, ldexp(1, power), text, &truth, &d));
        if (power == -12) at_12 = d;
        if (power == 16) at_16 = d;
        if (power == 40) at_40 = d;
    }
    TRY(show("bf16", "1", 0, text, &truth, &d));
    claim("at S = 2^-12 most of the gradient is lost", at_12.error > 0.5);
    claim("at S = 2^16 fp16 is closer to fp32 than bf16", at_16.error < d.error);
    claim("at S = 2^40 it overflows", at_40.overflow > 0);
    free(truth.x);
    data_close(&text);
    return OK;
}

int main(int argc, char **argv) {
    omp_set_num_threads(1);
    enum status status = comm_start(&argc, &argv);
    if (status == OK) status = underflow();
    if (status != OK) status_report();
    comm_finish(true, status_exit_code(status));
    return status != OK ? status_exit_code(status) : wrong != 0;
}
