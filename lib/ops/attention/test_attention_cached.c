/* ranks: 1  device: cpu
 *
 * A sequence that passes through the cache, a few tokens at a time, against blocked attention over the whole sequence.
 * The cache starts full of NaN, so that a position that is read before it is written shows. */
#include "lib/ops/attention/attention.h"
#include "lib/ops/attention/attention_cached.h"
#include "lib/ops/test_op.h"
#include <stdlib.h>

static int B = 2, T = 7, H = 3, D = 5, first_h = 0, n_h = 3;
static int first_t = 0, n_t = 7, window = 0;     /* window: of attention */
static double cap = 0;
static bool sinks = false;

static void sizes(int t, int h, int d) { T = t, H = n_h = h, D = d, first_h = 0; }
static struct type whole_type(enum dtype dtype) { return op_type(dtype, "BT3HD", B, T, 3, H, D); }
static struct type qkv_type(enum dtype dtype) { return op_type_part(whole_type(dtype), 'H', first_h, n_h); }

static void make_blocked(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_attention_blocked, 2);
    c->step.attention.view = (struct attention_view){.window = window, .cap = cap, .sinks = sinks};
    op_case_input(c, whole_type(dtype));
    if (sinks) op_case_weight(c, op_type(dtype, "H", H));
    op_case_finish(c);
}

static void make_cached(struct op_case *c, enum dtype dtype) {
    struct type qkv = op_type_part(qkv_type(dtype), 'T', first_t, n_t);
    op_case_start(c, &op_attention_cached, 1);
    c->step.attention.view = (struct attention_view){.window = window, .cap = cap, .sinks = sinks};
    op_case_input(c, qkv);
    op_case_weight(c, attention_cache_type(&qkv));
    if (sinks) op_case_weight(c, op_type_part(op_type(dtype, "H", H), 'H', first_h, n_h));
    op_case_finish(c);
}

/* Run tokens t .. t + n - 1 with the cache so far; return the error of their y. Operands are filled by global index, so
 * their qkv are those of the whole sequence. */
static double tokens_error(const struct op_case *whole, enum dtype dtype, int t, int n, const struct tensor *cache) {
    struct op_case c;
    first_t = t, n_t = n;
    make_cached(&c, dtype);
    void *own = c.weight[0].data;
    c.weight[0].data = cache->data;
    if (sinks) tensor_copy_values(&c.weight[1], &whole->weight[0]);
    op_case_run(&c, ROW_FORWARD);
    double error = tensor_error(&c.out[0], &whole->out[0]);
    c.weight[0].data = own;
    op_case_free(&c);
    return error;
}

/* The larger error; NaN if either is NaN, which fmax would drop. */
static double worse(double a, double b) { return isnan(a) || isnan(b) ? NAN : a > b ? a : b; }

/* The reference: attention in fp64, on the operands of the cached case, which are rounded to dtype. */
static void make_reference(struct op_case *whole, enum dtype dtype) {
    struct op_case rounded;
    make_blocked(&rounded, dtype);
    make_blocked(whole, FP64);
    tensor_copy_values(&whole->in[0], &rounded.in[0]);
    if (sinks) tensor_copy_values(&whole->weight[0], &rounded.weight[0]);
    op_case_run(whole, ROW_FORWARD);
    op_case_free(&rounded);
}

static void check(enum dtype dtype, int tokens) {
    struct op_case whole;
    make_reference(&whole, dtype);
    struct type qkv = qkv_type(dtype), type = attention_cache_type(&qkv);
    struct tensor cache = tensor_new(&type);
    double error = 0;
    for (int t = 0; t < T; t += tokens)
        error = worse(error, tokens_error(&whole, dtype, t, t + tokens < T ? tokens : T - t, &cache));
    assert_close(error, 0, op_error_bound(dtype, T + D + 16, 0));
    free(cache.data);
    op_case_free(&whole);
}

TEST(test_cached_attention_is_attention) {
    static const int lengths[] = {1, 7, 70}, channels[] = {5, 67, 3};
    for (size_t i = 0; i < 3; i++) {
        sizes(lengths[i], 3, channels[i]);
        check(FP64, 1);
        check(FP64, 3);
        check(FP64, T);
    }
}

TEST(test_cached_attention_in_a_window_is_attention) {
    sizes(70, 3, 5);
    for (window = 1; window < 80; window += 23) {
        check(FP64, 1);
        check(FP64, 3);
        check(FP64, T);
    }
    window = 0;
}

TEST(test_cached_attention_with_a_cap_and_sinks_is_attention) {
    sizes(33, 3, 5);
    for (int i = 1; i < 4; i++) {
        cap = i & 1 ? 0.7 : 0, sinks = i & 2, window = i == 3 ? 9 : 0;
        for (enum dtype d = FP64; d <= FP16; d++) check(d, 3);
    }
    cap = 0, sinks = false, window = 0;
}

TEST(test_cached_attention_in_every_precision) {
    sizes(33, 3, 20);
    for (enum dtype d = FP64; d <= FP16; d++) check(d, 1);
}

TEST(test_cached_attention_of_some_heads) {
    sizes(7, 5, 4);
    first_h = 2, n_h = 2;
    check(FP64, 1);
}

TEST(test_cached_attention_is_the_same_on_any_number_of_threads) {
    sizes(7, 3, 5);
    first_t = 0, n_t = 7;
    op_case_check_threads(make_cached);
}

/* Each key that a query sees costs two multiply-adds per channel. 7 tokens see 1 + 2 + ... + 7 keys, in one call or in
 * seven. */
TEST(test_cached_attention_costs_what_it_sees) {
    double one_by_one = 0, together = 0;
    struct op_case c;
    sizes(7, 3, 5);
    for (int n = 1; n <= 7; n += 6)
        for (int t = 0; t < 7; t += n) {
            first_t = t, n_t = n;
            make_cached(&c, FP64);
            struct call call = op_case_call(&c, ROW_FORWARD);
            *(n == 1 ? &one_by_one : &together) += op_cost(&call, ROW_FORWARD).flops;
            op_case_free(&c);
        }
    assert_close(together, 4. * B * H * D * 28, 1e-9);
    assert_close(one_by_one, together, 1e-9);
    window = 3, first_t = 6, n_t = 1;
    make_cached(&c, FP64);
    struct call call = op_case_call(&c, ROW_FORWARD);
    assert_close(op_cost(&call, ROW_FORWARD).flops, 4. * B * H * D * window, 1e-9);
    op_case_free(&c);
    window = 0;
}

static enum status shape_of(struct type qkv, struct type cache) {
    struct type out[MAX_OUT];
    struct step step = {.op = &op_attention_cached, .n_in = 1, .n_out = 1, .n_weight = 1};
    struct call call = {.step = &step, .in = {{NULL, &qkv}}, .weight = {{NULL, &cache}}};
    return op_attention_cached.shape(&call, out);
}

TEST(test_cached_attention_refuses_other_shapes) {
    sizes(7, 3, 5);
    struct type qkv = qkv_type(FP64), cache = attention_cache_type(&qkv);
    assert_ok(shape_of(op_type_part(qkv, 'T', 6, 1), cache));
    assert_fails(shape_of(op_type_part(qkv, 'T', 7, 1), cache), E_CONFIG, "attention_cached", "beyond the sequence");
    assert_fails(shape_of(op_type_part(qkv, 'T', 6, 2), cache), E_CONFIG, "beyond the sequence");
    assert_fails(shape_of(op_type_part(qkv, 'D', 0, 4), op_type_part(cache, 'D', 0, 4)), E_CONFIG, "must be whole");
    assert_fails(shape_of(op_type_part(qkv, 'H', 1, 2), cache), E_CONFIG, "the cache must be");
    assert_fails(shape_of(qkv, op_type_part(cache, 'T', 0, 6)), E_CONFIG, "the cache must be");
    cache.dtype = FP32;
    assert_fails(shape_of(qkv, cache), E_CONFIG, "the cache must be");
}

TESTS(unit_test(test_cached_attention_is_attention),
      unit_test(test_cached_attention_in_a_window_is_attention),
      unit_test(test_cached_attention_with_a_cap_and_sinks_is_attention),
      unit_test(test_cached_attention_in_every_precision),
      unit_test(test_cached_attention_of_some_heads),
      unit_test(test_cached_attention_is_the_same_on_any_number_of_threads),
      unit_test(test_cached_attention_costs_what_it_sees), unit_test(test_cached_attention_refuses_other_shapes))
