/* ranks: 1  device: any
 *
 * Fused kernels against the two kernels that they replace: within the error of sums on the CPU, bit for bit on the
 * device. Then the pairs that may be joined, and a program with and without fusions. */
#include "lib/ops/fusion.h"

#include "driver/recipe.h"
#include "lib/ops/bias_dropout_residual.h"
#include "lib/ops/gelu.h"
#include "lib/ops/layernorm.h"
#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"
#include "mixed_precision/mixed_precision.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool on_cpu(void) { return test_device()->kind == DEVICE_CPU; }
static bool has_fusions(void) { return fusions[0].run[DEVICE_CUDA][FP32] != NULL; }

/* ---- two steps; the second reads the first's output ---- */

struct pair { struct op_case first, second; };

/* Let the second step read the first's output, in the same memory. */
static void pair_tie(struct pair *p) {
    free(p->second.in[0].data);
    p->second.in[0].data = p->first.out[0].data;
}
static void pair_free(struct pair *p) {
    p->second.in[0].data = NULL;
    op_case_free(&p->first);
    op_case_free(&p->second);
}

static void pair_run_apart(struct pair *p, const struct device *d) {
    op_case_run_on(&p->first, ROW_FORWARD, d);
    op_case_run_on(&p->second, ROW_FORWARD, d);
}

/* ---- the pair on the device: one copy for each address ---- */

enum { MOST_OPERANDS = 2 * (MAX_IN + MAX_OUT + MAX_WEIGHTS + 1) };
struct mirror { int n; struct { void *host, *base, *there; int64_t bytes, shift; } of[MOST_OPERANDS]; };

static const void *shifted;   /* the operand that starts 8 bytes into its allocation, and so is off a 16-byte
                               * boundary */

static void *mirror_of(struct mirror *m, void *host, int64_t bytes) {
    const struct device *d = test_device();
    for (int i = 0; i < m->n; i++)
        if (m->of[i].host == host) return m->of[i].there;
    int64_t shift = host == shifted ? 8 : 0;
    void *base, *there;
    assert_ok(d->allocate(d, bytes + shift, &base));
    there = (char *)base + shift;
    assert_ok(d->upload(d, there, host, bytes));
    m->of[m->n].host = host, m->of[m->n].base = base;
    m->of[m->n].bytes = bytes, m->of[m->n].shift = shift;
    return m->of[m->n++].there = there;
}
static void mirror_tensors(struct mirror *m, struct tensor *t, int n) {
    for (int i = 0; i < n; i++)
        if (t[i].data) t[i].data = mirror_of(m, t[i].data, type_bytes(t[i].type));
}
/* Scratch of the mirrored calls on the host. The content is ignored; the memory is kept until the next call. */
static void *scratch[2];
static struct call mirror_call(struct mirror *m, const struct op_case *c, int which) {
    struct call call = op_case_call(c, ROW_FORWARD);
    call.device = test_device();
    call.on = call.device->kind;
    int64_t work = op_work(&call, ROW_FORWARD);
    free(scratch[which]);
    scratch[which] = work ? calloc(1, (size_t)work) : NULL;
    if (work) call.work = mirror_of(m, scratch[which], work);
    mirror_tensors(m, call.in, MAX_IN);
    mirror_tensors(m, call.out, MAX_OUT);
    mirror_tensors(m, call.weight, MAX_WEIGHTS);
    return call;
}
static void mirror_back(struct mirror *m) {
    const struct device *d = test_device();
    for (int i = 0; i < m->n; i++) {
        assert_ok(d->download(d, m->of[i].host, m->of[i].there, m->of[i].bytes));
        d->release(d, m->of[i].base, m->of[i].bytes + m->of[i].shift);
    }
}

static void pair_run_fused(struct pair *p) {
    struct mirror m = {0};
    struct call first = mirror_call(&m, &p->first, 0), second = mirror_call(&m, &p->second, 1);
    fused_kernel *run = fusion_of(&first, &second, ROW_FORWARD);
    assert_non_null(run);
    assert_ok(run(&first, &second));
    mirror_back(&m);
}

static void assert_same_bits(const struct op_case *a, const struct op_case *b) {
    for (int i = 0; i < a->step.n_out; i++)
        assert_memory_equal(a->out[i].data, b->out[i].data, (size_t)type_bytes(&a->out_type[i]));
}

/* ---- bias_dropout_residual, layernorm ---- */

/* This rank's shard: (B,T,C), positions from first_t on. sum_over_x, y_over_sum: the result overwrites the operand. */
static struct { int B, T, C, first_t; double p; bool store, training, sum_over_x, y_over_sum; } s;

static void make_residual_layernorm(struct pair *p, enum dtype d) {
    struct type x = op_type_part(op_type(d, "BTC", s.B, s.first_t + s.T + 2, s.C), 'T', s.first_t, s.T),
                w = op_type(d, "C", s.C);
    op_case_start(&p->first, &op_bias_dropout_residual, op_n_out(&op_bias_dropout_residual, s.store));
    p->first.step.dropout.p = s.p;
    p->first.settings.training = s.training;
    p->first.settings.first_sample = 5;
    op_case_input(&p->first, x);
    op_case_input(&p->first, x);
    op_case_weight(&p->first, w);
    op_case_finish(&p->first);
    op_case_start(&p->second, &op_layernorm, 2);
    op_case_input(&p->second, x);
    op_case_weight(&p->second, w);
    op_case_weight(&p->second, w);
    op_case_finish(&p->second);
    pair_tie(p);
}

/* Run the fused kernel with results over operands, and copy the results to the memory where they are compared. */
static void run_residual_layernorm_in_place(struct pair *p) {
    void *sum = p->first.out[0].data, *y = p->second.out[0].data;
    if (s.sum_over_x) p->first.out[0].data = p->second.in[0].data = p->first.in[0].data;
    if (s.y_over_sum) p->second.out[0].data = p->first.out[0].data;
    pair_run_fused(p);
    size_t bytes = (size_t)type_bytes(&p->first.out_type[0]);
    if (s.sum_over_x) memcpy(sum, p->first.out[0].data, bytes);
    if (s.y_over_sum) memcpy(y, p->second.out[0].data, bytes);
    p->first.out[0].data = p->second.in[0].data = sum;
    p->second.out[0].data = y;
}

/* The CPU's s may differ by one rounding, which rstd magnifies, and the CPU adds C terms in another order. */
static void assert_close_to(const struct op_case *value, const struct op_case *reference, enum dtype d) {
    for (int i = 0; i < value->step.n_out; i++) {
        if (value->out_type[i].dtype == UINT8) continue;
        assert_close(tensor_error(&value->out[i], &reference->out[i]), 0, op_error_bound(d, fmax(64, s.C), 1));
    }
}

static void check_residual_layernorm(enum dtype d) {
    struct pair fused, apart, cpu;
    make_residual_layernorm(&fused, d), make_residual_layernorm(&apart, d), make_residual_layernorm(&cpu, d);
    print_message("%s B %d T %d@%d C %d p %.1f%s%s%s%s\n", dtype_name(d), s.B, s.T, s.first_t, s.C, s.p,
                  s.store ? " stored" : "", s.training ? "" : " evaluation", s.sum_over_x ? " s over x" : "",
                  s.y_over_sum ? " y over s" : "");
    run_residual_layernorm_in_place(&fused);
    pair_run_apart(&apart, test_device());
    pair_run_apart(&cpu, device_cpu());
    if (!s.y_over_sum) assert_same_bits(&fused.first, &apart.first);
    assert_same_bits(&fused.second, &apart.second);
    if (!s.y_over_sum) assert_close_to(&fused.first, &cpu.first, d);
    assert_close_to(&fused.second, &cpu.second, d);
    if (s.store)
        assert_memory_equal(fused.first.out[1].data, cpu.first.out[1].data, (size_t)type_bytes(&cpu.first.out_type[1]));
    pair_free(&fused), pair_free(&apart), pair_free(&cpu);
}

/* 3 and 77 are no whole groups, so the separate kernels run. 8 is one lane of a warp in 16 bits. 264 gives some lanes
 * one group more. 1048 is more than a warp keeps, in 16 bits by 24 columns. 11 rows are no multiple of a block's
 * warps. */
TEST(test_residual_layernorm_is_the_two_kernels) {
    static const int lengths[] = {3, 8, 16, 77, 264, 1048};
    if (on_cpu()) skip();
    memset(&s, 0, sizeof s);
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int i = 0; i < 6; i++)
            for (int how = 0; how < 4; how++) {
                s.C = lengths[i];
                s.B = s.C > 300 ? 1 : 2, s.T = s.C > 300 ? 3 : 11, s.first_t = 3 * (i % 2);
                s.p = how ? 0.3 : 0;
                s.store = how == 2;
                s.training = how != 3;
                check_residual_layernorm(d);
            }
}

/* The longest row that 16 warps keep has 8192 columns in fp32, 16384 in bf16. A row with 8 columns more is too long. */
TEST(test_residual_layernorm_of_long_rows) {
    if (on_cpu()) skip();
    memset(&s, 0, sizeof s);
    s.B = 1, s.T = 2, s.p = 0.3, s.training = true;
    for (s.C = 8192; s.C <= 8200; s.C += 8) check_residual_layernorm(FP32);
    for (s.C = 16384; s.C <= 16392; s.C += 8) check_residual_layernorm(BF16);
}

TEST(test_residual_layernorm_writes_over_its_operands) {
    if (on_cpu()) skip();
    memset(&s, 0, sizeof s);
    s.B = 2, s.T = 5, s.p = 0.3, s.training = true;
    for (enum dtype d = FP64; d <= FP16; d++)
        for (int how = 1; how < 4; how++) {
            s.sum_over_x = how & 1, s.y_over_sum = how >> 1 & 1;
            for (s.C = 72; s.C <= 77; s.C += 5) check_residual_layernorm(d);
        }
    memset(&s, 0, sizeof s);
}

/* Each operand in turn is off a 16-byte boundary, so the separate kernels must run. */
TEST(test_residual_layernorm_of_unaligned_operands) {
    if (on_cpu()) skip();
    memset(&s, 0, sizeof s);
    s.B = 1, s.T = 3, s.C = 16, s.p = 0.3, s.training = s.store = true;
    for (int i = 0; i < 8; i++) {
        struct pair fused, cpu;
        make_residual_layernorm(&fused, FP32), make_residual_layernorm(&cpu, FP32);
        struct op_case *a = &fused.first, *b = &fused.second;
        const void *operands[] = {a->in[0].data, a->in[1].data, a->weight[0].data, a->out[0].data, a->out[1].data,
                                  b->weight[0].data, b->weight[1].data, b->out[0].data};
        shifted = operands[i];
        pair_run_fused(&fused);
        shifted = NULL;
        pair_run_apart(&cpu, device_cpu());
        assert_close_to(&fused.first, &cpu.first, FP32);
        assert_close_to(&fused.second, &cpu.second, FP32);
        pair_free(&fused), pair_free(&cpu);
    }
}

/* ---- linear, gelu ---- */

static void make_linear_gelu(struct pair *p, enum dtype d, int T, int C, int K, bool bias) {
    op_case_start(&p->first, &op_linear, 1);
    op_case_input(&p->first, op_type(d, "BTC", 2, T, C));
    op_case_weight(&p->first, op_type(d, "KC", K, C));
    if (bias) op_case_weight(&p->first, op_type(d, "K", K));
    op_case_finish(&p->first);
    op_case_start(&p->second, &op_gelu, 1);
    op_case_input(&p->second, op_type(d, "BTK", 2, T, K));
    op_case_finish(&p->second);
    pair_tie(p);
}

/* The bounds. The value between the two ops is a rounded sum of C terms. y: |gelu'| < 1.13, and the CPU's gelu reads a
 * rounded sum. So y differs by at most 3.13 roundings of the element type, by two sums of C terms, and by gelu's own 16
 * roundings on each side (test_gelu.c). */
static void check_linear_gelu(enum dtype d, int T, int C, int K, bool bias, bool in_place) {
    struct pair fused, cpu;
    double u = dtype_roundoff(d), n = C + 2, sum = n * sqrt(n) * dtype_roundoff(dtype_accumulator(d));
    make_linear_gelu(&fused, d, T, C, K, bias), make_linear_gelu(&cpu, d, T, C, K, bias);
    void *y = fused.second.out[0].data;
    if (in_place) fused.second.out[0].data = fused.first.out[0].data;
    pair_run_fused(&fused);
    pair_run_apart(&cpu, device_cpu());
    if (!in_place) assert_close(tensor_error(&fused.first.out[0], &cpu.first.out[0]), 0, 2 * u + 2 * sum);
    assert_close(tensor_error(&fused.second.out[0], &cpu.second.out[0]), 0,
                 3.13 * u + 3 * sum + 64 * dtype_roundoff(dtype_accumulator(d)));
    fused.second.out[0].data = y;
    pair_free(&fused), pair_free(&cpu);
}

/* cuBLASLt can write gelu's input with 24 columns, but not with 21. Without a bias there is no such epilogue. */
TEST(test_linear_gelu_is_the_two_kernels) {
    if (on_cpu()) skip();
    for (enum dtype d = FP32; d <= FP16; d++)
        for (int how = 0; how < 8; how++)
            check_linear_gelu(d, 7, how & 1 ? 13 : 40, how & 2 ? 21 : 24, true, how & 4);
    check_linear_gelu(BF16, 7, 40, 24, false, false);
}

/* The sum 1 + 2^-8 is written as 1, but gelu reads it unrounded: 216/256 in bf16, while gelu(1) is 215/256. */
TEST(test_linear_gelu_takes_the_sum_unrounded) {
    if (on_cpu()) skip();
    struct pair p;
    make_linear_gelu(&p, BF16, 1, 1, 8, true);
    for (int i = 0; i < 2; i++) dtype_set(p.first.in[0].data, BF16, i, 1);
    for (int i = 0; i < 8; i++)
        dtype_set(p.first.weight[0].data, BF16, i, 1), dtype_set(p.first.weight[1].data, BF16, i, 0x1p-8);
    pair_run_fused(&p);
    for (int i = 0; i < 16; i++) {
        assert_close(dtype_get(p.first.out[0].data, BF16, i), 1, 0);         /* a tie rounds to even */
        assert_close(dtype_get(p.second.out[0].data, BF16, i), 216.0 / 256, 0);
    }
    pair_free(&p);
}

/* The pair is not joined if y overlaps the product's scratch, by one byte at either end. */
TEST(test_linear_gelu_is_not_joined_over_scratch) {
    if (!has_fusions()) skip();
    struct type x = op_type(BF16, "BTC", 2, 3, 16), w = op_type(BF16, "KC", 32, 16), b = op_type(BF16, "K", 32),
                y = op_type(BF16, "BTK", 2, 3, 32);
    static char memory[1 << 20];
    struct step linear = {.op = &op_linear, .n_in = 1, .n_out = 1, .n_weight = 2},
    gelu = {.op = &op_gelu, .n_in = 1, .n_out = 1};
    struct call first = {.step = &linear, .on = DEVICE_CUDA, .in = {{memory, &x}},
                         .weight = {{memory + 65536, &w}, {memory + 131072, &b}}, .out = {{memory + 196608, &y}}};
    struct call second = {.step = &gelu, .on = DEVICE_CUDA, .in = {{memory + 196608, &y}},
                          .out = {{memory + 262144, &y}}};
    assert_non_null(fusion_of(&first, &second, ROW_FORWARD));
    first.work = memory + 262144 + type_bytes(&y);
    assert_non_null(fusion_of(&first, &second, ROW_FORWARD));
    first.work = memory + 262144 + type_bytes(&y) - 1;
    assert_null(fusion_of(&first, &second, ROW_FORWARD));
    first.work = memory + 262144 - op_work(&first, ROW_FORWARD) + 1;
    assert_null(fusion_of(&first, &second, ROW_FORWARD));
}

/* ---- pairs that may be joined ---- */

/* Calls with addresses that are never read: each operand has its own page. */
enum { PAGE = 1 << 16 };
struct calls { struct step first_step, second_step; struct type x, w, mask, stat; struct call first, second; };
static char pages[16 * PAGE];
static void *page(int i) { return pages + i * PAGE; }

static void calls_make(struct calls *c, enum dtype d) {
    c->x = op_type(d, "BTC", 2, 3, 16), c->w = op_type(d, "C", 16), c->mask = op_type(UINT8, "BTC", 2, 3, 16);
    c->stat = op_type(dtype_accumulator(d), "BT2", 2, 3, 2);
    c->first_step = (struct step){.op = &op_bias_dropout_residual, .n_in = 2, .n_out = 2, .n_weight = 1};
    c->second_step = (struct step){.op = &op_layernorm, .n_in = 1, .n_out = 2, .n_weight = 2};
    c->first = (struct call){.step = &c->first_step, .on = DEVICE_CUDA, .in = {{page(0), &c->x}, {page(1), &c->x}},
                             .weight = {{page(2), &c->w}}, .out = {{page(3), &c->x}, {page(4), &c->mask}}};
    c->second = (struct call){.step = &c->second_step, .on = DEVICE_CUDA, .in = {{page(3), &c->x}},
                              .weight = {{page(5), &c->w}, {page(6), &c->w}},
                              .out = {{page(7), &c->x}, {page(8), &c->stat}}};
}

static bool joins(const struct calls *c, enum row_kind kind) { return fusion_of(&c->first, &c->second, kind) != NULL; }


TEST(test_fusion_is_for_listed_ops_dtypes_and_devices) {
    struct calls c;
    if (!has_fusions()) skip();                             /* a build without CUDA has none of these */
    for (enum dtype d = FP64; d <= FP16; d++) {
        calls_make(&c, d);
        assert_true(joins(&c, ROW_FORWARD));
        assert_true(joins(&c, ROW_REPLAY));
        assert_false(joins(&c, ROW_BACKWARD_INPUT));
        c.first.on = c.second.on = DEVICE_CPU;
        assert_false(joins(&c, ROW_FORWARD));
    }
    calls_make(&c, FP32);
    c.second_step.op = &op_gelu;
    assert_false(joins(&c, ROW_FORWARD));
    calls_make(&c, FP32);
    assert_null(fusion_of(&c.second, &c.first, ROW_FORWARD));
    calls_make(&c, FP32);
    assert_false(joins(&c, ROW_BACKWARD_WEIGHT));
}

TEST(test_fusion_is_of_a_value_handed_over_as_it_is) {
    struct calls c;
    struct type other;
    if (!has_fusions()) skip();
    calls_make(&c, FP32);
    c.second.in[0].data = page(9);                          /* another value */
    assert_false(joins(&c, ROW_FORWARD));
    calls_make(&c, FP32);
    c.second.in[0].data = c.first.out[0].data = NULL;
    assert_false(joins(&c, ROW_FORWARD));
    calls_make(&c, FP32);
    c.second.in[0].data = page(4);                          /* the first's other output */
    assert_false(joins(&c, ROW_FORWARD));
    for (int how = 0; how < 2; how++) {                     /* the same memory with another type */
        calls_make(&c, FP32);
        other = how ? op_type(FP32, "BTC", 3, 2, 16) : op_type(BF16, "BTC", 2, 3, 16);
        c.second.in[0].type = &other;
        assert_false(joins(&c, ROW_FORWARD));
    }
}

/* Each result of the second overlaps each operand of the first: wholly, and by one byte at either end. */
TEST(test_fusion_is_not_of_rows_that_share_memory) {
    if (!has_fusions()) skip();
    for (int result = 0; result < 2; result++)
        for (int operand = 0; operand < 4; operand++)
            for (int edge = 0; edge < 3; edge++) {
                struct calls c;
                calls_make(&c, FP32);
                struct tensor *written = &c.second.out[result];
                struct tensor *theirs[] = {&c.first.in[0], &c.first.in[1], &c.first.weight[0], &c.first.out[1]};
                int64_t bytes = type_bytes(written->type), their_bytes = type_bytes(theirs[operand]->type);
                char *at = theirs[operand]->data;
                if (at == pages) at = theirs[operand]->data = page(10);
                written->data = edge == 0 ? at : edge == 1 ? at + their_bytes - 1 : at - bytes + 1;
                assert_false(joins(&c, ROW_FORWARD));
                written->data = edge == 2 ? at - bytes : at + their_bytes;     /* next to it */
                assert_true(joins(&c, ROW_FORWARD));
            }
}

/* A pair is joined if y overwrites the value between the two, and also if that value overwrites x. */
TEST(test_fusion_may_write_over_the_value_between) {
    struct calls c;
    if (!has_fusions()) skip();
    calls_make(&c, FP32);
    c.second.out[0].data = c.first.out[0].data;
    assert_true(joins(&c, ROW_FORWARD));
    c.first.in[0].data = c.first.out[0].data;
    assert_true(joins(&c, ROW_FORWARD));
}

/* ---- a program ---- */

static struct plan program_plan(enum plan_precision precision, int kind) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.global_batch = 4, p.micro_batch = 2;
    p.precision = precision;
    model_options(&p)->dropout_masks = kind == 1 ? MASKS_STORE : MASKS_REDRAW;
    recompute_options(&p)->kind = kind == 2 ? RECOMPUTE_FULL : kind == 1 ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    mixed_precision_options(&p)->init = 4096, mixed_precision_options(&p)->min = 1,
    mixed_precision_options(&p)->window = 1000, mixed_precision_options(&p)->hysteresis = 2;
    return p;
}

/* The least number of pairs. In each microbatch of each step a layer has:
 *   linear and gelu, forward: not in fp64, and surely joined only without recomputation. With it, linear's input dies
 *     with the row, and gelu's result may be in that memory
 *   linear and gelu, backward: not in fp64
 *   residual and norm, forward: 2, in the middle and at the end. Full recomputation runs the one in the middle again
 *   backward rows of one step: 2 norms and 2 residuals
 * The last norm's backward adds one. */
static int64_t n_pairs(const struct plan *p, bool recompute) {
    int wide = p->precision == PRECISION_FP64, gelu = !wide && recompute_options(p)->kind == RECOMPUTE_NONE;
    return PARITY_STEPS * (p->global_batch / p->micro_batch) * (p->layers * ((recompute ? 7 : 6) + gelu + !wide) + 1);
}

/* @return the number of pairs that ran as one kernel */
static int64_t train(struct plan p, bool fuse, const struct reference *ref, struct difference *d) {
    int64_t before = fusion_joined();
    p.fuse = fuse;
    p.device = PLAN_DEVICE_CUDA;
    assert_ok(plan_settle(&p, 1));
    assert_ok(layout_compare(&p, ref, d));
    return fusion_joined() - before;
}

/* Memory of dead values is painted (WATCH_LIFETIMES), so a pair that must not be joined changes the results. */
TEST(test_training_is_the_same_bit_for_bit) {
    if (on_cpu()) skip();
    static const enum plan_precision precisions[] = {PRECISION_FP64, PRECISION_BF16, PRECISION_FP16, PRECISION_FP32};
    for (int i = 0; i < 4; i++) {
        struct plan p = program_plan(precisions[i], i % 3);
        struct reference ref;
        struct difference fused, apart;
        assert_ok(reference_init(&ref, &p));
        int64_t joined = train(p, true, &ref, &fused), none = train(p, false, &ref, &apart);
        reference_fini(&ref);
        assert_int_equal(none, 0);
        assert_true(joined >= n_pairs(&p, i % 3 == 2));
        double u = p.precision == PRECISION_BF16 ? 0x1p-8 : p.precision == PRECISION_FP16 ? 0x1p-11 : 0x1p-24, q = 6;
        if (p.precision == PRECISION_FP64) assert_true(fused.bits == apart.bits);
        /* tests/test_device_parity.c */
        assert_close(fused.first_loss, 0, 2 * q * sqrt(2 * 197) * 0.5 * u / log(131));
        assert_close(fused.first_grad, 0, q * sqrt(2 * 405) * u);
        assert_close(fused.memory, 0, 0);
    }
}

/* ---- events of params, between the rows of a pair ---- */

enum { MOST_EVENTS = 1024 };
struct events { int n[N_EVENTS], param[N_EVENTS][MOST_EVENTS]; };

static enum status on_event(struct run *r, void *self, const struct event *event) {
    (void)r;
    struct events *e = self;
    if (e->n[event->kind] < MOST_EVENTS) e->param[event->kind][e->n[event->kind]] = event->param;
    e->n[event->kind]++;
    return OK;
}

static enum status train_and_listen(struct run *r, struct plan p, struct events *e) {
    struct data_split train_part, val;
    static struct data_file *file;
    TRY(plan_settle(&p, 1));
    TRY(run_create(r, &train_recipe, &p, WATCH_NOTHING));
    if (!file) TRY(data_open("configs/demo.txt", &file));
    TRY(data_split_tail(file, p.seq, 0.1, &train_part, &val));
    run_set_data(r, &train_part, &val);
    TRY(run_subscribe(r, EVENT_PARAM_NEEDED, on_event, e));
    TRY(run_subscribe(r, EVENT_PARAM_DONE, on_event, e));
    return run_step(r);
}

/* Listeners get the same events with and without fusions, in the same order for each kind. */
TEST(test_fusion_keeps_the_events_of_params) {
    static struct events heard[2];
    if (on_cpu()) skip();
    memset(heard, 0, sizeof heard);
    for (int fuse = 0; fuse < 2; fuse++) {
        struct plan p = program_plan(PRECISION_FP32, 2);
        struct run r = {0};
        p.device = PLAN_DEVICE_CUDA;
        p.fuse = fuse;
        enum status status = train_and_listen(&r, p, &heard[fuse]);
        run_destroy(&r);
        assert_ok(status);
    }
    assert_true(heard[0].n[EVENT_PARAM_NEEDED] > 0 && heard[0].n[EVENT_PARAM_DONE] > 0);
    assert_true(heard[0].n[EVENT_PARAM_NEEDED] < MOST_EVENTS);
    assert_memory_equal(&heard[0], &heard[1], sizeof heard[0]);
}

TESTS(unit_test(test_linear_gelu_is_the_two_kernels), unit_test(test_linear_gelu_takes_the_sum_unrounded),
      unit_test(test_linear_gelu_is_not_joined_over_scratch), unit_test(test_residual_layernorm_of_unaligned_operands),
      unit_test(test_fusion_keeps_the_events_of_params), unit_test(test_residual_layernorm_is_the_two_kernels),
      unit_test(test_residual_layernorm_of_long_rows), unit_test(test_residual_layernorm_writes_over_its_operands),
      unit_test(test_fusion_is_for_listed_ops_dtypes_and_devices),
      unit_test(test_fusion_is_of_a_value_handed_over_as_it_is),
      unit_test(test_fusion_is_not_of_rows_that_share_memory), unit_test(test_fusion_may_write_over_the_value_between),
      unit_test(test_training_is_the_same_bit_for_bit))
