/* ranks: 1  device: any */
#include "lib/ops/test_op.h"

#include "lib/device/arena.h"
#include <omp.h>
#include <stdlib.h>

/* ---- tensors ---- */

double tensor_error(const struct tensor *value, const struct tensor *reference) {
    double error = 0, largest = 0;
    bool whole = type_n(value->type) == type_n(reference->type);
    for (int64_t i = 0; i < type_n(reference->type); i++)
        largest = fmax(largest, fabs(dtype_get(reference->data, reference->type->dtype, i)));
    for (int64_t i = 0; i < type_n(value->type); i++) {
        int64_t at = whole ? i : shape_global_index(&value->type->shape, i);
        double x = dtype_get(value->data, value->type->dtype, i);
        if (at < 0) continue;
        double difference = fabs(x - dtype_get(reference->data, reference->type->dtype, at));
        if (!(difference <= error)) error = difference;   /* also true for NaN */
        if (error != error) return error;
    }
    return largest > 0 ? error / largest : error;
}

void tensor_subtract(const struct tensor *x, const struct tensor *y) {
    for (int64_t i = 0; i < type_n(x->type); i++)
        dtype_set(x->data, x->type->dtype, i,
                  dtype_get(x->data, x->type->dtype, i) - dtype_get(y->data, y->type->dtype, i));
}

static struct tensor tensor_copy(const struct tensor *t) {
    struct tensor copy = tensor_new(t->type);
    memcpy(copy.data, t->data, (size_t)type_bytes(t->type));
    return copy;
}

static bool tensor_same_bits(const struct tensor *a, const struct tensor *b) {
    return memcmp(a->data, b->data, (size_t)type_bytes(a->type)) == 0;
}

void tensor_copy_values(const struct tensor *to, const struct tensor *from) {
    if (to->type->dtype == from->type->dtype)
        memcpy(to->data, from->data, (size_t)type_bytes(to->type));
    else
        dtype_convert(to->data, to->type->dtype, from->data, from->type->dtype, type_n(to->type));
}

/* ---- gradients ---- */

/* The scalar whose gradient backward computes: the loss times loss_scale, or dout . out of all outputs. */
static double objective(struct op_case *c) {
    op_case_run(c, ROW_FORWARD);
    if (c->step.op->no_grad_out & 1) return dtype_get(c->out[0].data, c->out_type[0].dtype, 0) * c->settings.loss_scale;
    double sum = 0;
    for (int k = 0; k < c->step.n_out; k++)
        for (int64_t i = 0; !(c->step.op->no_grad_out >> k & 1) && i < type_n(&c->out_type[k]); i++)
            sum += ((double *)c->out[k].data)[i] * ((double *)c->dout[k].data)[i];
    return sum;
}

/* Five-point central difference with h = 1e-3: truncation h^4 f'''''/30 = 3e-14 f''''', rounding 1.5 (2^-53 |f|
 * sqrt(n)) / h, about 1e-12 for |f| of 10. The bound 1e-9 of the largest gradient leaves room for fifth derivatives of
 * a few thousand. */
static double slope(struct op_case *c, double *x) {
    const double h = 1e-3, x0 = *x;
    double f[5];
    for (int i = 0; i < 5; i++) {
        *x = x0 + (i - 2) * h;
        f[i] = i == 2 ? 0 : objective(c);
    }
    *x = x0;
    return (f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * h);
}
/* The next element after i, of n, whose slope is measured. On the CPU that is i + 1. On a GPU 11 elements and the last
 * are enough, because op_case_check_siblings compares every element with the CPU's. */
static int64_t next_measured(int64_t i, int64_t n) {
    int64_t step = test_device()->kind == DEVICE_CPU || n < 12 ? 1 : n / 11;
    return i < n - 1 && i + step > n - 1 ? n - 1 : i + step;
}
static void check_slopes(struct op_case *c, const struct tensor *x, const struct tensor *dx) {
    double largest = 1e-3;
    int64_t n = type_n(x->type);
    for (int64_t i = 0; i < n; i++) largest = fmax(largest, fabs(((double *)dx->data)[i]));
    for (int64_t i = 0; i < n; i = next_measured(i, n))
        assert_close(((double *)dx->data)[i], slope(c, (double *)x->data + i), 1e-9 * largest);
}

static bool has_weight_gradients(const struct op *op) { return op->has_backward_weight || op_input_adds_weights(op); }

/* The gradients that a row of this kind computes. */
static int gradients_of(const struct op_case *c, enum row_kind kind, struct tensor of[MAX_IN + MAX_WEIGHTS]) {
    const struct op *op = c->step.op;
    int n = 0;
    for (int i = 0; i < c->step.n_in && kind == ROW_BACKWARD_INPUT; i++)
        if (!(op->no_grad_in >> i & 1)) of[n++] = c->din[i];
    for (int i = 0; i < c->step.n_weight && (kind == ROW_BACKWARD_WEIGHT || op_input_adds_weights(op)); i++)
        of[n++] = c->dweight[i];
    return n;
}

/* Run backward again with accumulation: the result is twice the gradient, up to a rounding of the sum. */
static void check_accumulates(struct op_case *c, enum row_kind kind) {
    struct tensor d[MAX_IN + MAX_WEIGHTS], once[MAX_IN + MAX_WEIGHTS];
    int n = gradients_of(c, kind, d);
    for (int i = 0; i < n; i++) once[i] = tensor_copy(&d[i]);
    c->settings.accumulate = ~0u;
    op_case_run(c, kind);
    c->settings.accumulate = 0;
    for (int i = 0; i < n; i++) {
        tensor_subtract(&d[i], &once[i]);
        assert_close(tensor_error(&d[i], &once[i]), 0, 4 * dtype_roundoff(d[i].type->dtype));
        memcpy(d[i].data, once[i].data, (size_t)type_bytes(d[i].type));
        free(once[i].data);
    }
}

/* With `fresh`, a gradient full of NaN must become what a gradient of zeros becomes without it. */
static void check_sets_gradients(struct op_case *c) {
    const struct op *op = c->step.op;
    for (int i = 0; i < c->step.n_weight; i++) {
        if (!(op->sets_dweight >> i & 1)) continue;
        struct tensor added = tensor_copy(&c->dweight[i]);
        memset(c->dweight[i].data, 0xff, (size_t)type_bytes(&c->dweight_type[i]));
        c->settings.fresh = 1u << i;
        op_case_run(c, op_input_adds_weights(op) ? ROW_BACKWARD_INPUT : ROW_BACKWARD_WEIGHT);
        c->settings.fresh = 0;
        assert_close(tensor_error(&c->dweight[i], &added), 0, 0);
        free(added.data);
    }
    for (int i = 0; i < c->step.n_weight; i++) memset(c->dweight[i].data, 0, (size_t)type_bytes(&c->dweight_type[i]));
    op_case_run_all(c);
}

void op_case_check_gradients(op_case_maker *make) {
    struct op_case c;
    make(&c, FP64);
    const struct op *op = c.step.op;
    op_case_run_all(&c);
    if (op->sets_dweight) check_sets_gradients(&c);
    if (op->has_backward_input) check_accumulates(&c, ROW_BACKWARD_INPUT);
    if (op->has_backward_weight) check_accumulates(&c, ROW_BACKWARD_WEIGHT);
    for (int i = 0; i < c.step.n_in; i++)
        if (!(op->no_grad_in >> i & 1)) check_slopes(&c, &c.in[i], &c.din[i]);
    for (int i = 0; i < c.step.n_weight; i++) check_slopes(&c, &c.weight[i], &c.dweight[i]);
    op_case_free(&c);
}

/* ---- precision ---- */

double dtype_roundoff(enum dtype d) { return ldexp(1, d == FP64 ? -53 : d == FP32 ? -24 : d == BF16 ? -8 : -11); }

/* A sum of n terms in precision u has an error of at most n u sum|term|. If the terms are independent and of size s,
 * sum|term| is about n s, and the largest of many such sums is at least sqrt(n) s. So relative to the largest element
 * the error is at most n sqrt(n) u. Elementary functions add a few roundings, which callers count in n. The result is
 * rounded once to the element type. If backward reads `stored` rounded results, each term of its sums has as many
 * roundings of the element type, and sum|term| / |sum| = sqrt(n) magnifies them. */
double op_error_bound(enum dtype d, double n, int stored) {
    double sum = dtype_roundoff(dtype_accumulator(d));
    return (1 + stored * sqrt(n)) * dtype_roundoff(d) + n * sqrt(n) * sum;
}

static void compare_results(const struct op_case *narrow, const struct op_case *wide, double bound) {
    const struct op *op = narrow->step.op;
    for (int i = 0; i < narrow->step.n_out; i++) assert_close(tensor_error(&narrow->out[i], &wide->out[i]), 0, bound);
    for (int i = 0; i < narrow->step.n_in && op->has_backward_input; i++)
        if (!(op->no_grad_in >> i & 1)) assert_close(tensor_error(&narrow->din[i], &wide->din[i]), 0, bound);
    for (int i = 0; i < narrow->step.n_weight && has_weight_gradients(op); i++)
        assert_close(tensor_error(&narrow->dweight[i], &wide->dweight[i]), 0, bound);
}

/* Keep the weights' gradients in the accumulator's type. */
static void widen_dweight(struct op_case *c) {
    for (int i = 0; i < c->step.n_weight; i++) {
        free(c->dweight[i].data);
        c->dweight_type[i].dtype = dtype_accumulator(c->weight_type[i].dtype);
        c->dweight[i] = tensor_new(&c->dweight_type[i]);
        memset(c->dweight[i].data, 0, (size_t)type_bytes(&c->dweight_type[i]));
    }
}

/* First with weights' gradients in the element type, then, if the op has weights, in the accumulator's. */
void op_case_check_precision(op_case_maker *make, enum dtype dtype, double n, int stored) {
    struct op_case narrow, wide;
    for (int high = 0, n_weight = 1; high < 1 + (n_weight > 0); high++) {
        make(&narrow, dtype);
        make(&wide, FP64);
        n_weight = narrow.step.n_weight;
        if (high) widen_dweight(&narrow);
        for (int i = 0; i < narrow.step.n_in; i++) tensor_copy_values(&wide.in[i], &narrow.in[i]);
        for (int i = 0; i < narrow.step.n_weight; i++) tensor_copy_values(&wide.weight[i], &narrow.weight[i]);
        for (int i = 0; i < narrow.step.n_out; i++) tensor_copy_values(&wide.dout[i], &narrow.dout[i]);
        op_case_run_all(&narrow);
        op_case_run_all(&wide);
        compare_results(&narrow, &wide, op_error_bound(dtype, n, stored));
        op_case_free(&narrow);
        op_case_free(&wide);
    }
}

void op_case_check_precisions(op_case_maker *make, double n, int stored) {
    op_case_check_precision(make, FP32, n, stored);
    op_case_check_precision(make, BF16, n, stored);
    op_case_check_precision(make, FP16, n, stored);
}

/* ---- siblings ---- */

/* max|difference| / max(max|reference|, least); integers are exact. */
static void assert_siblings(const struct tensor *value, const struct tensor *reference, double bound, double least) {
    enum dtype dtype = value->type->dtype;
    double largest = 0;
    for (int64_t i = 0; i < type_n(reference->type); i++)
        largest = fmax(largest, fabs(dtype_get(reference->data, dtype, i)));
    double error = tensor_error(value, reference);
    if (largest < least) error *= (largest > 0 ? largest : 1) / least;
    assert_close(error, 0, dtype == INT32 || dtype == UINT8 ? 0 : bound);
}

static void share(const struct tensor *to, const struct tensor *from, int n) {
    for (int i = 0; i < n; i++) memcpy(to[i].data, from[i].data, (size_t)type_bytes(from[i].type));
}

static void backward_siblings(struct op_case *device, struct op_case *cpu, double bound) {
    const struct op *op = cpu->step.op;
    if (op->has_backward_input) {
        op_case_run_on(cpu, ROW_BACKWARD_INPUT, device_cpu());
        op_case_run(device, ROW_BACKWARD_INPUT);
        for (int i = 0; i < cpu->step.n_in; i++)
            if (!(op->no_grad_in >> i & 1)) assert_siblings(&device->din[i], &cpu->din[i], bound, cpu->din_scale);
    }
    if (op->has_backward_weight) {
        op_case_run_on(cpu, ROW_BACKWARD_WEIGHT, device_cpu());
        op_case_run(device, ROW_BACKWARD_WEIGHT);
        for (int i = 0; i < cpu->step.n_weight; i++) assert_siblings(&device->dweight[i], &cpu->dweight[i], bound, 0);
    }
}

/* Both devices' backwards read the CPU's outputs, so that only their own roundings differ. They run twice; the second
 * time they add to the CPU's gradients. Weights' gradients start as copies of the weights, so that addition shows. */
static void siblings_in(op_case_maker *make, enum dtype dtype, bool high, double bound) {
    struct op_case cpu, device;
    make(&cpu, dtype);
    make(&device, dtype);
    if (high) widen_dweight(&cpu), widen_dweight(&device);
    for (int i = 0; i < cpu.step.n_weight; i++) tensor_copy_values(&cpu.dweight[i], &cpu.weight[i]);
    share(device.dweight, cpu.dweight, cpu.step.n_weight);
    op_case_run_on(&cpu, ROW_FORWARD, device_cpu());
    op_case_run(&device, ROW_FORWARD);
    for (int i = 0; i < cpu.step.n_out; i++) assert_siblings(&device.out[i], &cpu.out[i], bound, 0);
    share(device.out, cpu.out, cpu.step.n_out);
    backward_siblings(&device, &cpu, bound);
    cpu.settings.accumulate = device.settings.accumulate = ~0u;
    share(device.din, cpu.din, cpu.step.n_in);
    share(device.dweight, cpu.dweight, cpu.step.n_weight);
    backward_siblings(&device, &cpu, bound);
    op_case_free(&cpu);
    op_case_free(&device);
}

/* Each device's result is within the bound of the exact result, so two results differ by at most twice the bound. */
void op_case_check_siblings(op_case_maker *make, double n, int stored) {
    int n_checked = 0;
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct op_case c;
        make(&c, d);
        bool has = c.step.op->kernels[test_device()->kind][d].forward != NULL;
        bool wider = c.step.n_weight > 0 && dtype_accumulator(d) != d;
        op_case_free(&c);
        for (int high = 0; high <= wider && has; high++, n_checked++)
            siblings_in(make, d, high, 2 * op_error_bound(d, n, stored));
    }
    assert_true(n_checked > 0);
}

/* ---- aliases ---- */

static void run_call(struct call *call, enum row_kind kind) {
    call->on = test_device()->kind;
    void *work = malloc((size_t)op_work(call, kind) + 2 * ARENA_ALIGN);
    call->work = work;
    assert_ok(op_case_run_call(call, kind));
    free(work);
}

void op_case_check_aliases(op_case_maker *make) {
    struct op_case c;
    make(&c, FP32);
    const struct op *op = c.step.op;
    op_case_run_all(&c);
    if (op->backward_alias != ALIAS_NONE) {
        struct call call = op_case_call(&c, ROW_BACKWARD_INPUT);
        struct tensor dout = tensor_copy(&c.dout[0]);
        call.dout[0].data = call.din[op->alias_in].data = dout.data;
        run_call(&call, ROW_BACKWARD_INPUT);
        assert_true(tensor_same_bits(&dout, &c.din[op->alias_in]));
        free(dout.data);
    }
    if (op->forward_alias == ALIAS_IN_PLACE) {
        struct call call = op_case_call(&c, ROW_FORWARD);
        struct tensor expected = tensor_copy(&c.out[0]);
        call.out[0].data = call.in[0].data;
        run_call(&call, ROW_FORWARD);
        assert_true(tensor_same_bits(&c.in[0], &expected));
        free(expected.data);
    }
    op_case_free(&c);
}

/* ---- threads ---- */

static void check_same_results(const struct op_case *a, const struct op_case *b) {
    const struct op *op = a->step.op;
    for (int i = 0; i < a->step.n_out; i++) assert_true(tensor_same_bits(&a->out[i], &b->out[i]));
    for (int i = 0; i < a->step.n_in && op->has_backward_input; i++)
        assert_true(tensor_same_bits(&a->din[i], &b->din[i]));
    for (int i = 0; i < a->step.n_weight; i++) assert_true(tensor_same_bits(&a->dweight[i], &b->dweight[i]));
}

void op_case_check_threads(op_case_maker *make) {
    struct op_case one, three;
    int threads = omp_get_max_threads();
    make(&one, FP32);
    make(&three, FP32);
    omp_set_num_threads(1);
    op_case_run_all(&one);
    omp_set_num_threads(3);
    op_case_run_all(&three);
    omp_set_num_threads(threads);
    check_same_results(&one, &three);
    op_case_free(&one);
    op_case_free(&three);
}

/* ---- stored masks ---- */

static void assert_zeros(const struct tensor *x) {
    for (int64_t i = 0; i < type_n(x->type); i++) assert_close(dtype_get(x->data, x->type->dtype, i), 0, 0);
}

/* If the stored mask is overwritten with zeros (all dropped), the gradients of x and of the weights must be zero. */
static void check_masks_are_read(struct op_case *c) {
    for (int i = 0; i < c->step.n_out; i++)
        if (c->step.op->dropout_out >> i & 1) memset(c->out[i].data, 0, (size_t)type_bytes(&c->out_type[i]));
    for (int i = 0; i < c->step.n_weight; i++) memset(c->dweight[i].data, 0, (size_t)type_bytes(&c->dweight_type[i]));
    op_case_run(c, ROW_BACKWARD_INPUT);
    if (c->step.op->has_backward_weight) op_case_run(c, ROW_BACKWARD_WEIGHT);
    assert_zeros(&c->din[0]);
    for (int i = 0; i < c->step.n_weight; i++) assert_zeros(&c->dweight[i]);
}

void op_case_check_stored_masks(op_case_maker *make_store, op_case_maker *make_redraw) {
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct op_case store, redraw;
        make_store(&store, d);
        make_redraw(&redraw, d);
        assert_true(store.step.n_out > redraw.step.n_out);
        op_case_run_all(&store);
        op_case_run_all(&redraw);
        check_same_results(&redraw, &store);
        check_masks_are_read(&store);
        op_case_free(&store);
        op_case_free(&redraw);
    }
}

/* ---- the checks themselves ---- */

TEST(test_tensor_error_compares_a_shard_with_its_place) {
    struct type whole_type = op_type(FP64, "TC", 2, 4), part_type = op_type_part(whole_type, 'C', 2, 2);
    double whole_values[] = {0, 1, 2, 3, 4, 5, 6, -8}, part_values[] = {2, 3, 6, -7};
    struct tensor whole = {whole_values, &whole_type}, part = {part_values, &part_type};
    assert_close(tensor_error(&part, &whole), 1. / 8, 0);
    part_values[0] = NAN;
    assert_true(tensor_error(&part, &whole) != tensor_error(&part, &whole));
}

TESTS(unit_test(test_tensor_error_compares_a_shard_with_its_place))
