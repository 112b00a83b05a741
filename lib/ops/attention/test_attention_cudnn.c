/* ranks: 1  device: any */
#include "lib/ops/attention/attention.h"
#include "driver/recipe.h"
#include "lib/ops/attention/attention_cores.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <string.h>

/* Every step of attention has the core that the plan's option names. */
TEST(test_attention_core_is_the_plans) {
    for (enum attention_core core = ATTENTION_CORE_AUTO; core <= ATTENTION_CORE_OWN; core++) {
        struct plan p = parity_plan();
        struct run r = {0};
        int found = 0;
        p.layers = 2;
        p.attention_core = (int)core;
        assert_ok(plan_settle(&p, 1));
        assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
        for (int i = 0; i < r.program.n_steps; i++) {
            if (r.program.steps[i].op->rule != RULE_ATTENTION) continue;
            assert_int_equal(r.program.steps[i].attention.core, core);
            found++;
        }
        run_destroy(&r);
        assert_int_equal(found, 2);
    }
}

/* The text for the first lines of a run names each direction, if they differ. */
TEST(test_attention_cores_are_said_for_both_directions) {
    const char *size = "cuDNN does bf16", *room = "cuDNN needs 8 bytes";
    const struct attention_core_count by_own = {0, 2, 0, NULL}, refused = {0, 2, 0, size}, without = {0, 2, 0, room};
    assert_string_equal(attention_cores_text(&(struct attention_cores){{by_own, by_own}}), "own kernels");
    assert_string_equal(attention_cores_text(&(struct attention_cores){{refused, refused}}),
                        "own kernels (cuDNN does bf16)");
    assert_string_equal(attention_cores_text(&(struct attention_cores){{refused, without}}),
                        "forward our own kernels (cuDNN does bf16); backward our own kernels (cuDNN needs 8 bytes)");
    assert_string_equal(attention_cores_text(&(struct attention_cores){{{0, 0, 0, NULL}}}), "none on this rank");
}

#ifdef TRIVIUM_CUDNN
#include "lib/ops/attention/attention_cudnn.h"
#include "lib/ops/test_op.h"
#include "lib/device/arena.h"
#include <math.h>
#include <stdlib.h>

static struct attention_pair pair_of(enum attention_core core, struct type x, double p) {
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2, .attention = {{.p = p}, core}};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .on = DEVICE_CUDA, .training = true};
    return attention_pair_of(&call);
}
static bool planned_by(enum attention_core core, struct type x, double p) {
    const struct attention_pair pair = pair_of(core, x, p);
    return attention_cudnn_planned(&pair, true);
}
static bool planned(struct type x, double p) { return planned_by(ATTENTION_CORE_AUTO, x, p); }

TEST(test_attention_cudnn_is_planned_where_it_can) {
    assert_true(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0));
    assert_true(planned(op_type(FP16, "BT3HD", 2, 64, 3, 2, 64), 0));
    assert_true(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 256), 0) == (TRIVIUM_HOPPER == 1));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 264), 0));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0.1));
    assert_false(planned(op_type(FP32, "BT3HD", 2, 64, 3, 2, 64), 0));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 65, 3, 2, 64), 0));
    assert_false(planned(op_type(BF16, "BT3HD", 2, 64, 3, 2, 68), 0));
    assert_false(planned_by(ATTENTION_CORE_OWN, op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), 0));
}

/* A pair of a ring is planned forward, also with shared keys. Its backward adds to sums, which cuDNN does not. */
TEST(test_attention_cudnn_is_planned_for_a_meeting) {
    struct attention_pair pair = pair_of(ATTENTION_CORE_AUTO, op_type(BF16, "BT3HD", 2, 128, 3, 4, 64), 0);
    pair.Tk = 64, pair.causal = false, pair.shared_by = 2;
    assert_true(attention_cudnn_planned(&pair, false));
    assert_int_equal(attention_cudnn_work(&pair, false), 4096);
    assert_false(attention_cudnn_planned(&pair, true));
    pair.shared_by = 1, pair.sums = true;
    assert_false(attention_cudnn_planned(&pair, true));
    pair.sums = false, pair.Tk = 32;
    assert_false(attention_cudnn_planned(&pair, false));
}

static void check_text(enum attention_core core, struct type x, bool sums, const char *forward, const char *backward) {
    struct attention_cores cores = {{{0}}};
    struct attention_pair pair = pair_of(core, x, 0);
    pair.device = test_device();
    assert_ok(attention_cores_add(&cores, &pair, false));
    pair.sums = sums;
    assert_ok(attention_cores_add(&cores, &pair, true));
    const char *text = attention_cores_text(&cores);
    assert_non_null(strstr(text, forward));
    assert_non_null(strstr(text, backward));
}

/* The text names the kernels of each direction, and why they are our own. Plans of cuDNN need a GPU
 * (tests/cudnn/plans.c does not). */
TEST(test_attention_cores_are_those_of_the_plans) {
    check_text(ATTENTION_CORE_AUTO, op_type(FP32, "BT3HD", 2, 64, 3, 2, 64), false, "own kernels (cuDNN does bf16", "");
    check_text(ATTENTION_CORE_AUTO, op_type(BF16, "BT3HD", 2, 65, 3, 2, 64), false, "own kernels (cuDNN does bf16", "");
    check_text(ATTENTION_CORE_OWN, op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), true, "own kernels", "");
    if (test_device()->kind != DEVICE_CUDA) {
        print_message("skipped in part: needs a GPU\n");
        skip();
    }
    check_text(ATTENTION_CORE_AUTO, op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), false, "cuDNN 9.", "(forward engine ");
    check_text(ATTENTION_CORE_AUTO, op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), true, "forward cuDNN 9.",
               "; backward our own kernels (cuDNN does not add to gradients)");
}

/* If cuDNN is asked for by name, a shape that it does not support is refused while planning. */
TEST(test_attention_cudnn_by_name_refuses_what_it_cannot) {
    struct type good = op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), odd = op_type(BF16, "BT3HD", 2, 65, 3, 2, 64),
                out[MAX_OUT];
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2, .attention.core = ATTENTION_CORE_CUDNN};
    struct call call = {.step = &step, .in = {{NULL, &good}}, .on = DEVICE_CUDA, .training = true};
    enum status fits = op_attention_blocked.shape(&call, out);
    call.in[0].type = &odd;
    enum status refused = op_attention_blocked.shape(&call, out);
    call.on = DEVICE_CPU;
    enum status on_cpu = op_attention_blocked.shape(&call, out);
    assert_fails(refused, E_CONFIG, "attention-core=cudnn", "T 65", "attention-core own");
    assert_int_equal(fits, OK);
    assert_int_equal(on_cpu, OK);
}

static void make(struct op_case *c, enum dtype dtype, int T, int D) {
    op_case_start(c, &op_attention_blocked, 2);
    op_case_input(c, op_type(dtype, "BT3HD", 2, T, 3, 3, D));
    op_case_finish(c);
}

/* Run a row by cuDNN; no other kernel may replace it. */
static enum status run_by_cudnn(struct op_case *c, enum row_kind kind) {
    c->step.attention.core = ATTENTION_CORE_CUDNN;
    struct call call = op_case_call(c, kind);
    call.on = DEVICE_CUDA;
    void *work = malloc((size_t)op_work(&call, kind) + 2 * ARENA_ALIGN);
    call.work = work;
    enum status status = op_case_run_call(&call, kind);
    free(work);
    return status;
}

/* Does cuDNN run backward here? For large heads only on Hopper. */
static bool has_backward(struct op_case *c) {
    struct call call = op_case_call(c, ROW_BACKWARD_INPUT);
    call.on = DEVICE_CUDA, call.device = test_device();
    const struct attention_pair pair = attention_pair_of(&call);
    struct attention_verdict verdict;
    assert_ok(attention_cudnn_usable(&pair, true, &verdict));
    return verdict.by_cudnn;
}

/* The bound is that of our own kernels on tensor cores (test_attention.c): sums over T or D terms, rounded twice.
 * Backward reads the CPU's y and lse. Needs a GPU. */
TEST(test_attention_cudnn_is_the_cpus) {
    if (test_device()->kind != DEVICE_CUDA) {
        print_message("skipped: needs a GPU\n");
        skip();
    }
    for (int i = 0; i < 16; i++) {
        int T = i < 12 ? 64 + 64 * (i / 4) : 128, D = i < 12 ? (i & 1 ? 128 : 64) : (i & 1 ? 256 : 160);
        enum dtype dtype = i & 2 ? FP16 : BF16;
        double bound = 2 * op_error_bound(dtype, (T > D ? T : D) + 16, 2);
        struct op_case cpu, cuda;
        make(&cpu, dtype, T, D);
        make(&cuda, dtype, T, D);
        op_case_run_on(&cpu, ROW_FORWARD, device_cpu());
        assert_ok(run_by_cudnn(&cuda, ROW_FORWARD));
        for (int o = 0; o < 2; o++) {
            assert_close(tensor_error(&cuda.out[o], &cpu.out[o]), 0, bound);
            tensor_copy_values(&cuda.out[o], &cpu.out[o]);
        }
        op_case_run_on(&cpu, ROW_BACKWARD_INPUT, device_cpu());
        cuda.step.attention.core = ATTENTION_CORE_AUTO;
        if (D <= 128 || has_backward(&cuda)) {
            assert_ok(run_by_cudnn(&cuda, ROW_BACKWARD_INPUT));
            assert_close(tensor_error(&cuda.din[0], &cpu.din[0]), 0, bound);
        }
        op_case_free(&cpu);
        op_case_free(&cuda);
    }
}

/* A pair of two shards on a GPU: Tq queries all see 64 keys. Two heads share the keys, which are dense in memory. */
static void check_meeting(enum dtype dtype, int64_t Tq, int64_t D) {
    enum { B = 2, H = 4, SHARED = 2, TK = 64 };
    const struct device *d = test_device();
    struct type q = op_type(dtype, "BTHD", B, (int)Tq, H, (int)D);
    struct type kv = op_type(dtype, "BT2JD", B, TK, 2, H / SHARED, (int)D);
    struct type lse = op_type(FP32, "BHT", B, H, (int)Tq);
    struct tensor x[] = {tensor_new(&q), tensor_new(&kv)}, y[] = {tensor_new(&q), tensor_new(&q)};
    struct tensor stat[] = {tensor_new(&lse), tensor_new(&lse)};
    void *at[2], *result, *statistic, *work;
    for (int i = 0; i < 2; i++) {
        for (int64_t e = 0; e < type_n(x[i].type); e++)
            dtype_set(x[i].data, dtype, e, rng_normal(1, rng_stream(i ? "kv" : "q"), (uint64_t)e));
        assert_ok(d->allocate(d, type_bytes(x[i].type), &at[i]));
        assert_ok(d->upload(d, at[i], x[i].data, type_bytes(x[i].type)));
    }
    assert_ok(d->allocate(d, type_bytes(&q), &result));
    assert_ok(d->allocate(d, type_bytes(&lse), &statistic));
    assert_ok(d->allocate(d, 4096, &work));
    for (int own = 0; own < 2; own++) {
        int64_t row = H * D, key_row = 2 * H / SHARED * D;
        struct attention_pair p = {
            .B = B, .H = H, .D = D, .Tq = Tq, .Tk = TK, .shared_by = SHARED, .scale = 1 / sqrt((double)D),
            .dtype = dtype, .core = own ? ATTENTION_CORE_OWN : ATTENTION_CORE_CUDNN, .q = {at[0], Tq * row, row, 1},
            .k = {at[1], TK * key_row, key_row, SHARED},
            .v = {(char *)at[1] + key_row / 2 * (int64_t)dtype_size(dtype), TK * key_row, key_row, SHARED},
            .y = {result, Tq * row, row, 1}, .lse = statistic, .lse_row = Tq, .device = d, .work = work};
        assert_ok(attention_pair_kernels(DEVICE_CUDA, dtype)->forward(&p));
        assert_ok(d->download(d, y[own].data, result, type_bytes(&q)));
        assert_ok(d->download(d, stat[own].data, statistic, type_bytes(&lse)));
    }
    double bound = 2 * op_error_bound(dtype, (D > TK ? (double)D : TK) + 16, 2);
    assert_close(tensor_error(&y[0], &y[1]), 0, bound);
    assert_close(tensor_error(&stat[0], &stat[1]), 0, bound);
    d->release(d, result, type_bytes(&q)), d->release(d, statistic, type_bytes(&lse)), d->release(d, work, 4096);
    for (int i = 0; i < 2; i++) {
        d->release(d, at[i], type_bytes(x[i].type));
        free(x[i].data), free(y[i].data), free(stat[i].data);
    }
}

TEST(test_a_meeting_by_cudnn_is_that_by_our_own_kernels) {
    if (test_device()->kind != DEVICE_CUDA) {
        print_message("skipped: needs a GPU\n");
        skip();
    }
    check_meeting(BF16, 64, 64);
    check_meeting(FP16, 128, 128);
}

TESTS(unit_test(test_attention_core_is_the_plans),
      unit_test(test_attention_cores_are_said_for_both_directions),
      unit_test(test_attention_cudnn_is_planned_where_it_can), unit_test(test_attention_cudnn_is_planned_for_a_meeting),
      unit_test(test_attention_cores_are_those_of_the_plans),
      unit_test(test_attention_cudnn_by_name_refuses_what_it_cannot), unit_test(test_attention_cudnn_is_the_cpus),
      unit_test(test_a_meeting_by_cudnn_is_that_by_our_own_kernels))

#else
#include "lib/ops/test_op.h"

/* A build with CUDA and without cuDNN refuses cuDNN by name. */
TEST(test_attention_by_cudnn_is_refused_without_it) {
#ifdef TRIVIUM_CUDA
    struct type x = op_type(BF16, "BT3HD", 2, 64, 3, 2, 64), out[MAX_OUT];
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2, .attention.core = ATTENTION_CORE_CUDNN};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .on = DEVICE_CUDA, .training = true};
    enum status status = op_attention_blocked.shape(&call, out);
    assert_fails(status, E_CONFIG, "attention-core=cudnn", "no cuDNN", "own or auto");
#else
    skip();
#endif
}

TEST(test_attention_cudnn_is_not_in_this_build) {
    print_message(
        "skipped: built without cuDNN, which has no fake (tests/simt); its graphs and numbers are not tested here\n");
    skip();
}

TESTS(unit_test(test_attention_core_is_the_plans),
      unit_test(test_attention_cores_are_said_for_both_directions),
      unit_test(test_attention_by_cudnn_is_refused_without_it),
      unit_test(test_attention_cudnn_is_not_in_this_build))
#endif
