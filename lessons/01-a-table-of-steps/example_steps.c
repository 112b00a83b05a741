/* ranks: 1
 *
 * A model as a table, and three interpreters of it, in their simplest form: two linear layers with GELU between.
 *
 *     slot    0 x (B,T,C)   1 u (B,T,K)   2 h (B,T,K)   3 y (B,T,C)
 *     step    u = x W1^T + b1        h = gelu(u)        y = h W2^T              loss = sum of y r, for some fixed r
 *
 * Forward runs the rows from the first to the last. Backward runs them from the last to the first, and calls each op
 * for the gradients of its input and of its weights. The table does not list the saved tensors, because they follow
 * from the operands that each op's backward reads (struct needs). Forward alone can check the gradients:
 *
 *     dloss/dw = (loss(w + h) - loss(w - h)) / 2h + O(h^2) + O(rounding / h)
 *
 * lib/program does this for a whole GPT: program.c is the table, lower.c derives lifetimes, exec.c runs the rows. */
#include "lib/base/rng.h"
#include "lib/ops/gelu.h"
#include "lib/ops/linear.h"

#include <math.h>
#include <stdio.h>

enum { B = 2, T = 3, C = 4, K = 16, MOST = B * T * K, N_SLOTS = 4, N_PARAMS = 3, N_STEPS = 3 };

static double slot_data[N_SLOTS][MOST], dslot_data[N_SLOTS][MOST], param_data[N_PARAMS][MOST],
    dparam_data[N_PARAMS][MOST], r[MOST];
static const char *const slot_names[N_SLOTS] = {"x", "u", "h", "y"}, *const param_names[N_PARAMS] = {"W1", "b1", "W2"};

/* The table: what the model is. */
#define WHOLE(letter, size) {.tag = letter, .n = size, .global = size}
/* infer sets the other types */
static struct type slot_types[N_SLOTS] = {{FP64, {3, {WHOLE('B', B), WHOLE('T', T), WHOLE('C', C)}}}};
static const struct type param_types[N_PARAMS] = {
    {FP64, {2, {WHOLE('K', K), WHOLE('C', C)}}}, {FP64, {1, {WHOLE('K', K)}}},
    {FP64, {2, {WHOLE('C', C), WHOLE('K', K)}}}};
static const struct step steps[N_STEPS] = {
    {.op = &op_linear, .n_in = 1, .n_out = 1, .n_weight = 2, .in = {0}, .out = {1}, .weight = {0, 1}},
    {.op = &op_gelu, .n_in = 1, .n_out = 1, .in = {1}, .out = {2}},
    {.op = &op_linear, .n_in = 1, .n_out = 1, .n_weight = 1, .in = {2}, .out = {3}, .weight = {2}},
};

/* Resolve a step's operands to addresses. A kernel sees this struct only, and not the table. */
static struct call call_of(const struct step *s) {
    struct call c = {.step = s, .training = true, .on = DEVICE_CPU, .device = device_cpu()};
    c.in[0] = (struct tensor){slot_data[s->in[0]], &slot_types[s->in[0]]};
    c.din[0] = (struct tensor){dslot_data[s->in[0]], &slot_types[s->in[0]]};
    c.out[0] = (struct tensor){slot_data[s->out[0]], &slot_types[s->out[0]]};
    c.dout[0] = (struct tensor){dslot_data[s->out[0]], &slot_types[s->out[0]]};
    for (int w = 0; w < s->n_weight; w++) {
        c.weight[w] = (struct tensor){param_data[s->weight[w]], &param_types[s->weight[w]]};
        c.dweight[w] = (struct tensor){dparam_data[s->weight[w]], &param_types[s->weight[w]]};
    }
    return c;
}

/* ---- three interpreters ---- */

/* Infer shapes: from the first step on, each op computes the shape of its output. */
static enum status infer(void) {
    for (int i = 0; i < N_STEPS; i++) {
        struct call c = call_of(&steps[i]);
        TRY(steps[i].op->shape(&c, &slot_types[steps[i].out[0]]));
    }
    return OK;
}

static enum status forward(double *loss) {
    for (int i = 0; i < N_STEPS; i++) {
        struct call c = call_of(&steps[i]);
        TRY(op_run(&c, ROW_FORWARD));
    }
    *loss = 0;
    for (int i = 0; i < B * T * C; i++) *loss += slot_data[3][i] * r[i];
    return OK;
}

static enum status backward(void) {
    for (int i = 0; i < B * T * C; i++) dslot_data[3][i] = r[i];         /* dloss/dy */
    for (int i = N_STEPS - 1; i >= 0; i--) {
        struct call c = call_of(&steps[i]);
        if (steps[i].op->has_backward_weight) TRY(op_run(&c, ROW_BACKWARD_WEIGHT));
        TRY(op_run(&c, ROW_BACKWARD_INPUT));
    }
    return OK;
}

/* ---- output ---- */

/* A slot is saved if the backward of a step reads it. */
static void show_table(void) {
    char shape[64];
    bool saved[N_SLOTS] = {false};
    for (int i = 0; i < N_STEPS; i++) {
        const struct needs *n = &steps[i].op->needs;
        saved[steps[i].in[0]] |= (n->bi_in | n->bw_in) & 1;
        saved[steps[i].out[0]] |= (n->bi_out | n->bw_out) & 1;
        shape_print(&slot_types[steps[i].out[0]].shape, shape, sizeof shape);
        printf("%d  %-7s %s -> %s %s\n", i, steps[i].op->name, slot_names[steps[i].in[0]], slot_names[steps[i].out[0]],
               shape);
    }
    for (int s = 0; s < N_SLOTS; s++)
        printf("%s  %3d bytes, %s\n", slot_names[s], (int)type_bytes(&slot_types[s]),
               saved[s] ? "saved for backward" : "gone after forward");
}

/* Compare one parameter's gradient with the slope of the loss, for h = 1, 1e-2, 1e-4, ... */
static enum status show_slopes(int p, int i) {
    double *w = &param_data[p][i], gradient = dparam_data[p][i], at = *w;
    printf("d loss / d %s[%d] = %.15f by backward; by differences of forward:\n", param_names[p], i, gradient);
    for (double h = 1; h > 1e-13; h /= 100) {
        double above, below;
        *w = at + h;
        TRY(forward(&above));
        *w = at - h;
        TRY(forward(&below));
        *w = at;
        printf("  h = %.0e   %.15f   off by %.0e\n", h, (above - below) / (2 * h),
               fabs((above - below) / (2 * h) / gradient - 1));
    }
    return OK;
}

static enum status example(void) {
    double loss;
    for (int s = 0; s < N_PARAMS; s++)
        for (int i = 0; i < MOST; i++) param_data[s][i] = 0.5 * rng_normal(1, rng_stream(param_names[s]), (uint64_t)i);
    for (int i = 0; i < MOST; i++)
        slot_data[0][i] = rng_normal(1, rng_stream("x"), (uint64_t)i),
        r[i] = rng_normal(1, rng_stream("r"), (uint64_t)i);
    TRY(infer());
    show_table();
    TRY(forward(&loss));
    TRY(backward());
    return show_slopes(0, 5);
}

int main(void) {
    enum status status = example();
    status_report();
    return status_exit_code(status);
}
