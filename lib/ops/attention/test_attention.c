/* ranks: 1  device: any */
#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_pair.h"
#include "lib/ops/test_op.h"

static int B = 2, T = 7, H = 3, D = 3, first_h = 0, n_h = 3, window = 0;
static bool sinks = false;
static double p = 0.25, cap = 0;
static enum attention_mask mask = MASK_CAUSAL;

static void make_with(struct op_case *c, const struct op *op, enum dtype dtype, bool store) {
    op_case_start(c, op, op_n_out(op, store));
    c->step.dropout.p = p;
    c->step.attention.mask = mask;
    c->step.attention.view = (struct attention_view){.window = window, .cap = cap, .sinks = sinks};
    c->settings.first_sample = 5;
    op_case_input(c, op_type_part(op_type(dtype, "BT3HD", B, T, 3, H, D), 'H', first_h, n_h));
    if (sinks) op_case_weight(c, op_type_part(op_type(dtype, "H", H), 'H', first_h, n_h));
    op_case_finish(c);
}
static void make_blocked(struct op_case *c, enum dtype dtype) { make_with(c, &op_attention_blocked, dtype, false); }
static void make_materialised(struct op_case *c, enum dtype dtype) {
    make_with(c, &op_attention_materialised, dtype, false);
}
static void make_store(struct op_case *c, enum dtype dtype) { make_with(c, &op_attention_materialised, dtype, true); }
static void sizes(int t, int h, int d) { T = t, H = n_h = h, D = d, first_h = 0; }
static bool on_cuda(void) { return test_device()->kind == DEVICE_CUDA; }
/* One head on CUDA, because an emulated GPU is slow; the comparisons with the CPU have several heads. */
static int heads(int n) { return on_cuda() ? 1 : n; }

/* A slope takes four forwards for each input, so on CUDA the sizes are small (an emulated GPU is slow). */
TEST(test_attention_gradient_is_the_slope) {
    if (on_cuda()) sizes(5, 1, 3);
    else sizes(7, 3, 3);
    op_case_check_gradients(make_blocked);
    op_case_check_gradients(make_materialised);
    op_case_check_gradients(make_store);
    sizes(1, 1, 3);
    op_case_check_gradients(make_blocked);
    op_case_check_gradients(make_materialised);
    op_case_check_gradients(make_store);
}

/* 67 positions are a tile of 64 and a tile of 3. On CUDA fp64 has tiles of 32. */
TEST(test_attention_gradient_is_the_slope_over_two_tiles) {
    sizes(on_cuda() ? 35 : 67, 1, 1);
    op_case_check_gradients(make_blocked);
    p = 0;
    op_case_check_gradients(make_blocked);
    if (on_cuda()) sizes(5, 1, 3);
    else sizes(7, 3, 3);
    op_case_check_gradients(make_materialised);
    p = 0.25;
}

TEST(test_attention_stored_dropout_is_the_redrawn_one) {
    for (int t = 7; t <= 67; t += 60) {
        sizes(t, heads(3), 5);
        op_case_check_stored_masks(make_store, make_materialised);
    }
    op_case_check_threads(make_store);
}

/* out[2] is 1 where m is not 0, and out[3] is m p. All scores are equal here, so p = 1 / (t + 1). */
TEST(test_attention_stores_the_mask_and_the_dropped_probabilities) {
    sizes(67, 3, 5);
    struct op_case c;
    make_store(&c, FP64);
    memset(c.in[0].data, 0, (size_t)type_bytes(&c.in_type[0]));
    op_case_run(&c, ROW_FORWARD);
    struct philox_key key = rng_key(7, rng_stream("test site"), 3);
    for (int i = 0; i < 2 * H * T * T; i++) {
        int j = i % T, t = i / T % T, h = i / T / T % H, b = i / T / T / H;
        struct philox_counter counter = {{(uint32_t)j / 4, (uint32_t)t, (uint32_t)h, (uint32_t)(5 + b)}};
        bool keep = philox(counter, key).v[j % 4] >= 0.25 * 4294967296.0;
        assert_int_equal(((uint8_t *)c.out[2].data)[i], keep);
        assert_close(((double *)c.out[3].data)[i], keep && j <= t ? 1 / (0.75 * (t + 1)) : 0, 1e-15);
    }
    op_case_free(&c);
}

/* The formula, softmax and mask written out, in fp64. */
static void check_formula(void) {
    sizes(67, 3, 5);
    struct op_case c;
    make_blocked(&c, FP64);
    op_case_run(&c, ROW_FORWARD);
    const double *x = c.in[0].data, *y = c.out[0].data, *saved = c.out[1].data;
    struct philox_key key = rng_key(7, rng_stream("test site"), 3);
    for (int r = 0; r < 2 * T * H; r++) {
        int h = r % H, t = r / H % T, b = r / H / T;
        double sum = sinks ? exp(((double *)c.weight[0].data)[h]) : 0, value[5] = {0};
        for (int j = window && t >= window ? t - window + 1 : 0; j < (mask == MASK_FULL ? T : t + 1); j++) {
            const double *q = x + (((b * T + t) * 3 + 0) * H + h) * D, *k = x + (((b * T + j) * 3 + 1) * H + h) * D;
            const double *v = x + (((b * T + j) * 3 + 2) * H + h) * D;
            double s = 0;
            for (int i = 0; i < D; i++) s += q[i] * k[i] / sqrt(D);
            if (cap > 0) s = cap * tanh(s / cap);
            struct philox_counter counter = {{(uint32_t)j / 4, (uint32_t)t, (uint32_t)h, (uint32_t)(5 + b)}};
            double m = philox(counter, key).v[j % 4] >= 0.25 * 4294967296.0 ? 1 / 0.75 : 0;
            sum += exp(s);
            for (int i = 0; i < D; i++) value[i] += exp(s) * m * v[i];
        }
        assert_close(saved[(b * H + h) * T + t], log(sum), 1e-14 * 10);
        for (int i = 0; i < D; i++) assert_close(y[r * D + i], value[i] / sum, 1e-14 * 10);
    }
    op_case_free(&c);
}

TEST(test_attention_is_its_formula) {
    check_formula();
}

static void check_blocked_is_materialised(void) {
    static const int lengths[] = {1, 4, 63, 64, 65, 130, 192};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        if (lengths[i] > 66 && on_cuda()) continue;   /* more than two tiles of 32 */
        sizes(lengths[i], heads(3), 5);
        struct op_case a, b;
        make_blocked(&a, FP64);
        make_materialised(&b, FP64);
        op_case_run_all(&a);
        op_case_run_all(&b);
        assert_close(tensor_error(&a.out[0], &b.out[0]), 0, op_error_bound(FP64, lengths[i] + 16, 0));
        assert_close(tensor_error(&a.din[0], &b.din[0]), 0, op_error_bound(FP64, lengths[i] + 16, 0));
        op_case_free(&a);
        op_case_free(&b);
    }
}

TEST(test_attention_blocked_is_materialised) {
    check_blocked_is_materialised();
}

/* The same checks without a causal mask: queries see all keys. */
TEST(test_attention_to_all_keys) {
    mask = MASK_FULL;
    check_formula();
    check_blocked_is_materialised();
    sizes(on_cuda() ? 5 : 7, heads(2), 3);
    op_case_check_gradients(make_blocked);
    op_case_check_gradients(make_materialised);
    op_case_check_gradients(make_store);
    sizes(67, heads(2), 5);
    op_case_check_precisions(make_blocked, 83, on_cuda() ? 2 : 1);
    op_case_check_precisions(make_materialised, 83, 2);
    op_case_check_threads(make_blocked);
    static const int lengths[] = {1, 5, 33, 65};
    for (int i = 0; i < 4; i++) {
        sizes(lengths[i], 2, i % 2 ? 16 : 5);
        op_case_check_siblings(make_blocked, lengths[i] + 16, 2);
        op_case_check_siblings(i % 2 ? make_store : make_materialised, lengths[i] + 16, 2);
    }
    mask = MASK_CAUSAL;
}

/* The same checks with windows of one key, of a few, around a tile, and of all but one key. */
TEST(test_attention_in_a_window) {
    static const int windows[] = {1, 3, 64, 65, 66};
    for (int i = 0; i < 5; i++) {
        window = windows[i];
        if (on_cuda() && i % 2) continue;
        check_formula();
        check_blocked_is_materialised();
    }
    window = 3;
    sizes(on_cuda() ? 5 : 7, heads(2), 3);
    op_case_check_gradients(make_blocked);
    op_case_check_gradients(make_materialised);
    op_case_check_gradients(make_store);
    sizes(67, heads(2), 5);
    op_case_check_precisions(make_blocked, 83, on_cuda() ? 2 : 1);
    op_case_check_precisions(make_materialised, 83, 2);
    op_case_check_threads(make_blocked);
    static const int lengths[] = {1, 5, 40, 65, 130};
    for (int i = 0; i < 5; i++) {
        sizes(lengths[i], heads(2), i % 2 ? 16 : 5);
        window = 1 + lengths[i] / 3;
        op_case_check_siblings(make_blocked, lengths[i] + 16, 2);
        op_case_check_siblings(i % 2 ? make_store : make_materialised, lengths[i] + 16, 2);
    }
    window = 0;
}

/* The same checks with a cap that most scores feel. */
TEST(test_attention_with_capped_scores) {
    cap = 0.7;
    check_formula();
    if (!on_cuda()) check_blocked_is_materialised();
    sizes(on_cuda() ? 5 : 7, heads(2), 3);
    op_case_check_gradients(make_blocked);
    if (!on_cuda()) op_case_check_gradients(make_materialised);
    if (!on_cuda()) op_case_check_gradients(make_store);
    window = 40;
    sizes(67, heads(2), 5);
    op_case_check_precisions(make_blocked, 83, on_cuda() ? 2 : 1);
    op_case_check_threads(make_blocked);
    for (int t = 5; t <= 65; t += 30) {
        sizes(t, heads(2), t == 35 ? 16 : 5);
        op_case_check_siblings(make_blocked, t + 16, 2);
    }
    cap = 50, window = 0;                                            /* Gemma 2's: scores of a few hardly feel it */
    check_formula();
    cap = 0;
}

static void make_shared(struct op_case *, enum dtype);

/* The same checks with sinks, for heads with keys of their own and for shared keys. */
TEST(test_attention_with_sinks) {
    sinks = true;
    check_formula();
    sizes(on_cuda() ? 5 : 7, heads(3), 3);
    op_case_check_gradients(make_blocked);
    window = 3, cap = 0.7;
    check_formula();
    sizes(5, 2, 3);
    op_case_check_gradients(make_shared);
    sizes(67, heads(2), 5);
    op_case_check_precisions(make_blocked, 83, on_cuda() ? 2 : 1);
    op_case_check_threads(make_blocked);
    for (int t = 5; t <= 65; t += 30) {
        sizes(t, 2, t == 35 ? 16 : 5);
        op_case_check_siblings(make_blocked, t + 16, 2);
        if (t < 65) op_case_check_siblings(make_shared, t + 16, 2);
    }
    sinks = false, window = 0, cap = 0;
}

/* Set part 0, 1 or 2 (queries, keys, values) of positions t0 to t1 of all heads to NaN. */
static void spoil(struct tensor *qkv, enum dtype dtype, int parts, int part, int t0, int t1) {
    for (int64_t i = 0; i < type_n(qkv->type); i++)
        if (i / D / H / parts % T >= t0 && i / D / H / parts % T < t1 && i / D / H % parts == part)
            dtype_set(qkv->data, dtype, i, NAN);
}

/* Values that a tile of queries does not see, and output gradients of queries that see no key of a tile, are not read:
 * a product by tiles that were only hidden would have 0 x NaN. So the work falls with the window. */
TEST(test_tiles_outside_the_window_are_left_out) {
    if (on_cuda()) return;                                           /* an emulated GPU is slow */
    sizes(5 * 64, 2, 8);
    window = 65;
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct op_case c;
        make_blocked(&c, d);
        spoil(&c.in[0], d, 3, 2, 0, 64);
        op_case_run(&c, ROW_FORWARD);
        for (int64_t i = 0; i < type_n(&c.out_type[0]); i++)
            assert_int_equal(isfinite(dtype_get(c.out[0].data, d, i)), i / D / H % T >= 128);
        op_case_free(&c);
        make_blocked(&c, d);
        op_case_run(&c, ROW_FORWARD);
        spoil(&c.dout[0], d, 1, 0, 256, 320);
        op_case_run(&c, ROW_BACKWARD_INPUT);
        for (int64_t i = 0; i < type_n(&c.in_type[0]); i++)
            if (i / D / H % 3 > 0) assert_true(isfinite(dtype_get(c.din[0].data, d, i)) == (i / D / H / 3 % T < 192));
        op_case_free(&c);
    }
    window = 0;
}

/* Bounds of a window against its definition, for whole sequences and for zig-zag shards of two. */
TEST(test_bounds_of_a_window_are_its_definition) {
    for (int parts = 1; parts <= 2; parts++)
        for (int of = 0; of < parts * parts; of++)
            for (int w = 1; w <= 24; w++) {
                struct attention_pair pair = {.Tq = 24 / parts, .Tk = 24 / parts, .view.window = w};
                pair.queries = parts > 1 ? axis_zigzag('T', 24, 2, of % 2) : axis_whole('T', 24);
                pair.keys = parts > 1 ? axis_zigzag('T', 24, 2, of / 2) : axis_whole('T', 24);
                for (int64_t j = 0; j < pair.Tk; j++) {
                    int64_t end = 0;
                    for (int64_t t = 0; t < pair.Tq; t++) {
                        bool near = axis_global(&pair.queries, t) - axis_global(&pair.keys, j) < w;
                        assert_int_equal(attention_first_key(&pair, t) <= j, near);
                        if (near) end = t + 1;
                    }
                    assert_int_equal(attention_end_of_queries(&pair, j), end);
                }
            }
}

/* n = 83: sums over T = 67 keys, and about 16 roundings in scores and exponentials. stored: backward of blocked
 * attention reads a rounded y, so 1. Materialised attention reads m p, rounded from a rounded p, so 2. On CUDA blocked
 * attention also has 2, because tensor cores read p and ds rounded. */
TEST(test_attention_in_every_precision) {
    sizes(67, heads(3), 5);
    op_case_check_precisions(make_blocked, 83, on_cuda() ? 2 : 1);
    op_case_check_precisions(make_materialised, 83, 2);
    op_case_check_precisions(make_store, 83, 2);
    op_case_check_threads(make_blocked);
    op_case_check_threads(make_materialised);
}

/* Full and partial tiles and pairs of bf16: lengths around one tile and two, odd and even; heads around 16 and 64
 * channels. The bound is that of the test above. */
TEST(test_blocked_attention_of_every_length_in_every_precision) {
    static const struct { int T, D; } cases[] = {{1, 1},  {2, 3},   {15, 16},  {33, 17}, {63, 64}, {64, 64},
                                                 {65, 65}, {127, 8}, {129, 80}, {130, 33}, {192, 64}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (cases[i].T > 66 && on_cuda()) continue;   /* more than two tiles of 32 */
        sizes(cases[i].T, heads(2), cases[i].D);
        op_case_check_precisions(make_blocked, (cases[i].T > cases[i].D ? cases[i].T : cases[i].D) + 16,
                                 on_cuda() ? 2 : 1);
    }
}

/* CUDA against the CPU, with full and partial tiles: T around 64 and around 32, D on both sides of every compiled size
 * and of 16 bytes; several samples; shards of heads. Small cases run with and without dropout, larger ones alternate.
 * The materialised kernels do not depend on D, so only small cases run them, storing or redrawing the mask. n: sums
 * over T keys or D channels, and 16 roundings, as above. */
TEST(test_attention_is_the_same_on_cuda) {
    static const struct { int B, T, H, D, first, n; } cases[] = {
        {2, 1, 1, 1, 0, 1},  {2, 1, 3, 64, 0, 3},  {2, 5, 3, 4, 1, 2},   {3, 16, 2, 8, 0, 2},  {1, 31, 1, 33, 0, 1},
        {2, 63, 2, 16, 1, 1}, {1, 64, 1, 64, 0, 1}, {2, 65, 3, 20, 1, 2}, {1, 65, 1, 80, 0, 1}, {1, 33, 2, 64, 0, 2},
        {2, 64, 1, 32, 0, 1}, {2, 16, 1, 96, 0, 1}, {1, 70, 1, 128, 0, 1}, {1, 130, 1, 24, 0, 1},
        {1, 66, 1, 127, 0, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int dropout = 0; dropout < 2; dropout++) {
            if (cases[i].T > 33 && (i + (size_t)dropout) % 2) continue;
            sizes(cases[i].T, cases[i].H, cases[i].D);
            B = cases[i].B, first_h = cases[i].first, n_h = cases[i].n;
            p = dropout ? 0.25 : 0;
            double n = (T > D ? T : D) + 16;
            op_case_check_siblings(make_blocked, n, 2);
            if (T <= 33 || (T <= 65 && D < 64)) op_case_check_siblings(i % 3 ? make_store : make_materialised, n, 2);
        }
    B = 2, p = 0.25;
}

/* A shard of the heads has the bits of these heads in the whole, with their part of the mask. */
TEST(test_attention_shards_of_heads_make_the_whole) {
    op_case_maker *const makers[] = {make_blocked, make_materialised, make_store};
    for (int kind = 0; kind < 3; kind++) {
        sizes(67, 3, 5);
        struct op_case whole, c;
        makers[kind](&whole, FP64);
        op_case_run_all(&whole);
        for (first_h = 0, n_h = 1; first_h < 3; first_h += n_h, n_h = 2) {
            makers[kind](&c, FP64);
            op_case_run_all(&c);
            for (int o = 0; o < c.step.n_out; o++) assert_close(tensor_error(&c.out[o], &whole.out[o]), 0, 0);
            assert_close(tensor_error(&c.din[0], &whole.din[0]), 0, 0);
            op_case_free(&c);
        }
        op_case_free(&whole);
    }
}

/* Scores of 1e4: e^s overflows, the softmax does not. */
TEST(test_attention_survives_large_scores) {
    sizes(67, 1, 3);
    p = 0;
    for (enum dtype d = FP64; d <= FP16; d++) {
        struct op_case c;
        make_blocked(&c, d);
        int64_t n = type_n(&c.in_type[0]);
        for (int64_t i = 0; i < n; i++)
            /* queries and keys */
            if (i / 3 % 3 < 2) dtype_set(c.in[0].data, d, i, 100 * dtype_get(c.in[0].data, d, i));
        op_case_run_all(&c);
        for (int64_t i = 0; i < type_n(&c.out_type[0]); i++)
            assert_true(fabs(dtype_get(c.out[0].data, d, i)) < 10);   /* a mean of normal values */
        for (int64_t i = 0; i < n; i++) assert_true(isfinite(dtype_get(c.din[0].data, d, i)));
        op_case_free(&c);
    }
    p = 0.25;
}

TEST(test_attention_refuses_a_sharded_sequence) {
    struct type x = op_type_part(op_type(FP32, "BT3HD", 1, 8, 3, 2, 4), 'T', 4, 4), out[MAX_OUT];
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2};
    struct call call = {.step = &step, .in = {{NULL, &x}}};
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "attention_blocked", "T 4/8@4");
}

TEST(test_attention_refuses_what_it_has_no_kernel_for) {
    struct type x = op_type(FP32, "BT3HD", 1, 8, 3, 2, 4), w = op_type(FP32, "H", 3), bias = op_type(FP32, "RH", 32, 2);
    struct type out[MAX_OUT];
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2, .n_weight = 1,
                        .attention.view.sinks = true};
    struct call call = {.step = &step, .in = {{NULL, &x}}, .weight = {{NULL, &w}}};
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "one number for each of the queries' heads");
    w = op_type(BF16, "H", 2);
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "different dtypes");
    w = op_type(FP32, "H", 2);
    assert_ok(op_attention_blocked.shape(&call, out));
    assert_fails(op_attention_materialised.shape(&call, out), E_CONFIG, "has no sinks", "use attention blocked");
    step.attention.view = (struct attention_view){.cap = 5};
    call.weight[0].type = &bias;
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "a cap is of scores without a bias");
    step.n_weight = 0, call.on = DEVICE_CUDA;
    assert_fails(op_attention_materialised.shape(&call, out), E_CONFIG, "no cap of scores", "use attention blocked");
}

TEST(test_attention_to_all_keys_refuses_a_window) {
    struct type x = op_type(FP32, "BT3HD", 1, 8, 3, 2, 4), out[MAX_OUT];
    struct step step = {.op = &op_attention_blocked, .n_in = 1, .n_out = 2, .attention.mask = MASK_FULL,
                        .attention.view.window = 3};
    struct call call = {.step = &step, .in = {{NULL, &x}}};
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "a window is of causal attention");
}

TEST(test_attention_refuses_a_head_that_cuda_has_no_room_for) {
    struct type x = op_type(FP32, "BT3HD", 1, 8, 3, 2, 257), out[MAX_OUT];
    const struct op *const ops[] = {&op_attention_blocked, &op_attention_materialised};
    for (int i = 0; i < 2; i++) {
        struct step step = {.op = ops[i], .n_in = 1, .n_out = 2};
        struct call call = {.step = &step, .in = {{NULL, &x}}, .on = DEVICE_CUDA};
        assert_fails(ops[i]->shape(&call, out), E_CONFIG, ops[i]->name, "D 257", "at most 256");
        call.on = DEVICE_CPU;
        assert_ok(ops[i]->shape(&call, out));
    }
}

/* The formula of the MFU: forward 4 T C a token, backward twice that. */
TEST(test_attention_cost_is_the_mfu_formulas) {
    sizes(8, 3, 5);
    struct op_case c;
    make_blocked(&c, FP32);
    struct call call = {.step = &c.step, .in = {c.in[0]}, .out = {c.out[0], c.out[1]}};
    double tokens = 2 * 8, forward = op_cost(&call, ROW_FORWARD).flops,
           backward = op_cost(&call, ROW_BACKWARD_INPUT).flops;
    assert_close(forward, tokens * 4 * 8 * 15, 0);
    assert_close(forward + backward, tokens * 12 * 8 * 15, 0);
    /* 3 keys for each query, of which the first two queries have fewer; without them 3 x 8 - 3 x 3 / 2 pairs */
    c.step.attention.view.window = 3;
    struct cost cost = op_cost(&call, ROW_FORWARD);
    assert_close(cost.flops, tokens * 4 * 3 * 15, 0);
    assert_close(cost.flops - cost.left_out, 2 * 4 * (3 * 8 - 4.5) * 15, 1e-9);
    c.step.attention.view.window = 9;
    assert_close(op_cost(&call, ROW_FORWARD).flops, forward, 0);
    op_case_free(&c);
}

/* ---- heads that share keys ---- */

static int shared_by = 2;
static void make_shared_with(struct op_case *c, const struct op *op, enum dtype dtype, bool store) {
    op_case_start(c, op, op_n_out(op, store));
    c->step.dropout.p = p;
    c->step.attention.mask = mask;
    c->step.attention.view = (struct attention_view){.window = window, .cap = cap, .sinks = sinks};
    c->settings.first_sample = 5;
    op_case_input(c, op_type(dtype, "BTHD", B, T, H, D));
    op_case_input(c, op_type(dtype, "BT2JD", B, T, 2, H / shared_by, D));
    if (sinks) op_case_weight(c, op_type(dtype, "H", H));
    op_case_finish(c);
}
static void make_shared(struct op_case *c, enum dtype dtype) {
    make_shared_with(c, &op_attention_blocked, dtype, false);
}
static void make_shared_materialised(struct op_case *c, enum dtype dtype) {
    make_shared_with(c, &op_attention_materialised, dtype, false);
}
static void make_shared_store(struct op_case *c, enum dtype dtype) {
    make_shared_with(c, &op_attention_materialised, dtype, true);
}

/* In every dtype, heads of more than 128 channels have kernels with other tiles. T is one more than a tile of 32, and D
 * is on both sides of the compiled sizes. Only the small cases drop, because dropout does not depend on D. */
TEST(test_attention_of_large_heads_is_the_same_on_cuda) {
    static const struct { int T, H, D; } cases[] = {
        {5, 2, 129}, {5, 1, 225}, {33, 1, 160}, {33, 1, 224}, {5, 1, 161}, {33, 1, 256}, {5, 1, 255}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sizes(cases[i].T, cases[i].H, cases[i].D);
        B = 1, p = T < 33 ? 0.25 : 0;
        op_case_check_siblings(make_blocked, D + 16, 2);
        if (D % 2) op_case_check_siblings(i % 4 ? make_store : make_materialised, D + 16, 2);
    }
    sizes(33, 2, 200);
    op_case_check_siblings(make_shared, D + 16, 2);
    B = 2, p = 0.25;
}

/* 4 heads of queries with 4, 2 or 1 heads of keys. 67 positions are more than one tile, in which heads that share keys
 * add up dk and dv. */
TEST(test_attention_of_shared_keys_gradient_is_the_slope) {
    sizes(5, 4, 3);
    for (shared_by = on_cuda() ? 2 : 1; shared_by <= (on_cuda() ? 2 : 4); shared_by *= 2) {
        op_case_check_gradients(make_shared);
        op_case_check_gradients(make_shared_materialised);
        op_case_check_gradients(make_shared_store);
    }
    shared_by = 2;
    sizes(on_cuda() ? 35 : 67, 2, 1);
    op_case_check_gradients(make_shared);
    sizes(7, 3, 3);
}

TEST(test_attention_of_shared_keys_in_every_precision) {
    sizes(67, on_cuda() ? 2 : 4, 5);
    op_case_check_precisions(make_shared, 67 + 16, on_cuda() ? 2 : 1);
    op_case_check_precisions(make_shared_materialised, 67 + 16, 2);
    op_case_check_siblings(make_shared, 67 + 16, 2);
    op_case_check_siblings(make_shared_store, 67 + 16, 2);
    op_case_check_threads(make_shared);
    op_case_check_threads(make_shared_store);
    sizes(7, 3, 3);
}

/* Copy `from` (B,T,2,J,D) and `q` to qkv (B,T,3,H,D): every head with a copy of its keys. */
static void copy_to_all_heads(double *qkv, const double *q, const double *kv) {
    int J = H / shared_by;
    for (int r = 0; r < B * T; r++)
        for (int h = 0; h < H; h++)
            for (int d = 0; d < D; d++) {
                double *to = qkv + (r * 3 * H + h) * D + d;
                const double *keys = kv + (r * 2 * J + h / shared_by) * D + d;
                to[0] = q[(r * H + h) * D + d], to[H * D] = keys[0], to[2 * H * D] = keys[J * D];
            }
}

/* Compare shared keys with a copy of the keys for every head: y and dq are the same, and dk and dv of shared keys are
 * the sums over the copies. */
static void check_shared_is_copied(const struct op *op) {
    struct op_case c, copied;
    make_shared_with(&c, op, FP64, false);
    make_with(&copied, op, FP64, false);
    copy_to_all_heads(copied.in[0].data, c.in[0].data, c.in[1].data);
    memcpy(copied.dout[0].data, c.dout[0].data, (size_t)type_bytes(&c.out_type[0]));
    op_case_run_all(&c);
    op_case_run_all(&copied);
    assert_close(tensor_error(&c.out[0], &copied.out[0]), 0, 0);
    const double *dq = c.din[0].data, *dkv = c.din[1].data, *d = copied.din[0].data;
    int J = H / shared_by;
    for (int i = 0; i < B * T * 2 * J * D; i++) {
        int at = i % D, j = i / D % J, part = i / D / J % 2, r = i / D / J / 2;
        double sum = 0;
        for (int h = j * shared_by; h < (j + 1) * shared_by; h++) sum += d[((r * 3 + 1 + part) * H + h) * D + at];
        assert_close(dkv[i], sum, 1e-14);
    }
    for (int i = 0; i < B * T * H * D; i++) assert_close(dq[i], d[i / (H * D) * 3 * H * D + i % (H * D)], 1e-15);
    op_case_free(&c);
    op_case_free(&copied);
}

TEST(test_attention_of_shared_keys_is_that_of_copies) {
    sizes(on_cuda() ? 35 : 67, 6, 5);
    for (shared_by = on_cuda() ? 6 : 1; shared_by <= 6; shared_by += shared_by) {
        if (H % shared_by) shared_by = 6;
        check_shared_is_copied(&op_attention_blocked);
        check_shared_is_copied(&op_attention_materialised);
    }
    shared_by = 2;
    sizes(7, 3, 3);
}

TEST(test_attention_refuses_keys_of_other_heads) {
    struct type q = op_type_part(op_type(FP32, "BTHD", 1, 8, 4, 4), 'H', 0, 2), out[MAX_OUT];
    struct type kv = op_type_part(op_type(FP32, "BT2JD", 1, 8, 2, 2, 4), 'J', 1, 1);
    struct step step = {.op = &op_attention_blocked, .n_in = 2, .n_out = 2};
    struct call call = {.step = &step, .in = {{NULL, &q}, {NULL, &kv}}};
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "attention_blocked", "keys are not here", "H 2/4");
    kv = op_type(FP32, "BT2JD", 1, 8, 2, 3, 4), q = op_type(FP32, "BTHD", 1, 8, 4, 4);
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "attention_blocked", "share each key head", "H 4");
    kv = op_type(FP32, "BT2JD", 1, 7, 2, 2, 4);
    assert_fails(op_attention_blocked.shape(&call, out), E_CONFIG, "attention_blocked", "differ", "T 8");
}

TESTS(unit_test(test_attention_gradient_is_the_slope), unit_test(test_attention_gradient_is_the_slope_over_two_tiles),
      unit_test(test_attention_stored_dropout_is_the_redrawn_one),
      unit_test(test_attention_stores_the_mask_and_the_dropped_probabilities), unit_test(test_attention_is_its_formula),
      unit_test(test_attention_to_all_keys), unit_test(test_attention_in_a_window),
      unit_test(test_attention_with_capped_scores), unit_test(test_attention_with_sinks),
      unit_test(test_tiles_outside_the_window_are_left_out), unit_test(test_bounds_of_a_window_are_its_definition),
      unit_test(test_attention_blocked_is_materialised), unit_test(test_attention_in_every_precision),
      unit_test(test_blocked_attention_of_every_length_in_every_precision),
      unit_test(test_attention_is_the_same_on_cuda),
      unit_test(test_attention_of_large_heads_is_the_same_on_cuda),
      unit_test(test_attention_shards_of_heads_make_the_whole),
      unit_test(test_attention_survives_large_scores), unit_test(test_attention_refuses_a_sharded_sequence),
      unit_test(test_attention_to_all_keys_refuses_a_window),
      unit_test(test_attention_refuses_what_it_has_no_kernel_for),
      unit_test(test_attention_refuses_a_head_that_cuda_has_no_room_for),
      unit_test(test_attention_cost_is_the_mfu_formulas),
      unit_test(test_attention_of_shared_keys_gradient_is_the_slope),
      unit_test(test_attention_of_shared_keys_in_every_precision),
      unit_test(test_attention_of_shared_keys_is_that_of_copies),
      unit_test(test_attention_refuses_keys_of_other_heads))
