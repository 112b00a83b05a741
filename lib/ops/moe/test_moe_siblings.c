/* ranks: 1 */
/* The experts' CUDA kernels against their CPU kernels, as in lib/ops/test_siblings.c: shapes drawn with a fixed seed,
 * more and fewer channels than threads in a warp and in a block, tokens and experts that do not fill a tile. */
#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/moe/moe_logits.h"
#include "lib/ops/moe/moe_route.h"
#include "lib/ops/test_op.h"
#include "lib/ops/moe/moe_pack.h"

/* The shape under test: samples, groups per sample, channels. */
static struct { int B, groups, C; struct moe_rule rule; } s;

static int n_tokens(void) { return s.B * s.groups * (int)s.rule.group; }
static struct type tokens_type(enum dtype d, char last, int64_t n) {
    const char tags[] = {'B', 'T', last, 0};
    return op_type(d, tags, s.B, s.groups * (int)s.rule.group, (int)n);
}
static struct type places_type(enum dtype d) {
    return op_type(d, "EPRC", (int)s.rule.experts, 1, s.B * s.groups * (int)s.rule.places, s.C);
}

static void make_moe_logits(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_moe_logits, 1);
    op_case_input(c, tokens_type(d, 'C', s.C));
    op_case_weight(c, op_type(dtype_accumulator(d), "EC", (int)s.rule.experts, s.C));
    op_case_finish(c);
}
static void make_moe_logits_with_bias(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_moe_logits, 1);
    op_case_input(c, tokens_type(d, 'C', s.C));
    op_case_weight(c, op_type(dtype_accumulator(d), "EC", (int)s.rule.experts, s.C));
    op_case_weight(c, op_type(dtype_accumulator(d), "E", (int)s.rule.experts));
    op_case_finish(c);
}
static double logits_sum(void) { return fmax(fmax(s.C, s.rule.experts), n_tokens()); }

static void make_expert_linear(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_expert_linear, 1);
    op_case_input(c, places_type(d));
    op_case_weight(c, op_type(d, "E2FC", (int)s.rule.experts, 2, 3, s.C));
    op_case_finish(c);
}
static double expert_sum(void) { return fmax(fmax(s.C, 6), n_tokens()); }

static void make_moe_route(struct op_case *c, enum dtype d) {
    op_case_start(c, s.rule.sigmoid ? &op_moe_route_biased : &op_moe_route, 3);
    c->step.moe = s.rule;
    c->settings.loss_weight = 1.0 / n_tokens(), c->settings.loss_scale = 2;
    op_case_input(c, tokens_type(d, 'E', s.rule.experts));
    if (s.rule.sigmoid) op_case_weight(c, op_type(dtype_accumulator(d), "E", (int)s.rule.experts));
    op_case_finish(c);
}
/* An exponential and its quotient, sums over experts and tokens; P (dP - dot) may cancel. */
static double route_sum(void) { return 32 + s.rule.experts + n_tokens(); }

/* The choices of token t begin with expert t and go round; a token that finds no place left in the group is dropped. */
static void set_picks(const struct tensor *picks) {
    int32_t *pick = picks->data, taken[64] = {0};
    for (int t = 0; t < n_tokens(); t++) {
        if (t % s.rule.group == 0) memset(taken, 0, sizeof taken);
        for (int j = 0; j < s.rule.k; j++) {
            int e = (t * 7 / 3 + j) % (int)s.rule.experts, place = taken[e]++;
            *pick++ = place < s.rule.places ? e * (int)s.rule.places + place : -1 - e;
        }
    }
}

static void make_moe_dispatch(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_moe_dispatch, 1);
    c->step.moe = s.rule;
    c->step.parts = 1;
    op_case_input(c, tokens_type(d, 'C', s.C));
    op_case_input(c, tokens_type(INT32, 'k', s.rule.k));
    op_case_finish(c);
    set_picks(&c->in[1]);
}

static void make_moe_combine(struct op_case *c, enum dtype d) {
    op_case_start(c, &op_moe_combine, 1);
    c->step.moe = s.rule;
    op_case_input(c, places_type(d));
    op_case_input(c, tokens_type(INT32, 'k', s.rule.k));
    op_case_input(c, tokens_type(dtype_accumulator(d), 'k', s.rule.k));
    op_case_finish(c);
    set_picks(&c->in[1]);
}
static double combine_sum(void) { return fmax(s.C, s.rule.k); }

enum { N_SHAPES = 12 };

static int draw(int shape, int what, int n) {
    return (int)(rng_uniform(13, rng_stream("shapes"), (uint64_t)(shape * 16 + what)) * n);
}

static void draw_shape(int i) {
    static const int C[] = {1, 3, 8, 31, 64, 65, 127, 260, 384, 515}, E[] = {1, 2, 4, 5, 9, 20};
    s.C = C[i % 10], s.B = 1 + draw(i, 0, 3), s.groups = 1 + draw(i, 1, 3);
    s.rule = (struct moe_rule){.experts = E[draw(i, 2, 6)], .group = 1 + draw(i, 3, 12), .aux = 0.3, .z = 0.1};
    s.rule.k = 1 + draw(i, 4, s.rule.experts < 4 ? (int)s.rule.experts : 4);
    s.rule.places = 1 + draw(i, 5, (int)s.rule.group), s.rule.raw = i % 2;
}

/* On the CPU an op is compared with itself, so three shapes are enough to test the makers. */
static void check(op_case_maker *make, double (*longest_sum)(void)) {
    for (int i = 0; i < (test_device()->kind == DEVICE_CPU ? 3 : N_SHAPES); i++) {
        draw_shape(i);
        print_message("B %d, %d groups of %d, C %d, k %d of %d experts of %d places\n", s.B, s.groups,
                      (int)s.rule.group, s.C, (int)s.rule.k, (int)s.rule.experts, (int)s.rule.places);
        op_case_check_siblings(make, longest_sum(), 0);
    }
}

/* A group with more tokens than a block has threads, and with more choices than places. */
TEST(test_siblings_of_a_long_group) {
    s.B = 1, s.groups = 2, s.C = 4;
    s.rule = (struct moe_rule){.experts = 3, .k = 2, .group = 300, .places = 150, .aux = 0.3, .z = 0.1};
    op_case_check_siblings(make_moe_route, route_sum(), 0);
    op_case_check_siblings(make_moe_logits, logits_sum(), 0);
    op_case_check_siblings(make_moe_logits_with_bias, logits_sum(), 0);
    op_case_check_siblings(make_moe_dispatch, combine_sum(), 0);
}

TEST(test_siblings_moe_logits) {
    check(make_moe_logits, logits_sum);
    check(make_moe_logits_with_bias, logits_sum);
}
TEST(test_siblings_moe_route) { check(make_moe_route, route_sum); }
TEST(test_siblings_of_sigmoids_and_sets) {
    for (int i = 0; i < N_SHAPES; i++) {
        draw_shape(i);
        s.rule.sigmoid = i % 3 > 0, s.rule.scale = 1.7;
        s.rule.experts *= s.rule.sets = 1 + draw(i, 6, 4);
        s.rule.sets_per_token = s.rule.sets > 1 ? s.rule.sets - 1 : 1;
        op_case_check_siblings(make_moe_route, route_sum(), 0);
    }
}
TEST(test_siblings_expert_linear) { check(make_expert_linear, expert_sum); }
TEST(test_siblings_moe_dispatch) { check(make_moe_dispatch, combine_sum); }
TEST(test_siblings_moe_combine) { check(make_moe_combine, combine_sum); }

/* Four tokens in groups of two, with two choices each; four experts with two places. The last token's second choice is
 * dropped. */
enum { T = 4, E = 4, K = 2, S = 2 };
static const int32_t PICKS[T * K] = {2 * S + 0, 0 * S + 0, 2 * S + 1, 3 * S + 0,
                                     1 * S + 0, 2 * S + 0, 2 * S + 1, -1 - 1};
static int parts = 1;

static void make(struct op_case *c, enum dtype dtype) {
    (void)dtype;
    op_case_start(c, &op_moe_pack, 2);
    c->step.moe = (struct moe_rule){.experts = E, .k = K, .group = 2, .places = S, .packed = true};
    c->step.parts = parts;
    op_case_input(c, op_type(INT32, "BTk", 1, T, K));
    op_case_finish(c);
    memcpy(c->in[0].data, PICKS, sizeof PICKS);
}

static void check_packed(int n, const int32_t rows[T * K], const int32_t counts[E]) {
    struct op_case c;
    parts = n;
    make(&c, FP32);
    op_case_run(&c, ROW_FORWARD);
    for (int i = 0; i < T * K; i++) assert_int_equal(((int32_t *)c.out[0].data)[i], rows[i]);
    for (int e = 0; e < E; e++) assert_int_equal(((int32_t *)c.out[1].data)[e], counts[e]);
    op_case_free(&c);
}

/* Experts 0 .. 3 have 1, 1, 4 and 1 rows, of tokens 0; 2; 0, 1, 2 and 3; 1. */
TEST(test_rows_of_an_expert_lie_after_one_another) {
    check_packed(1, (int32_t[]){2, 0, 3, 6, 1, 4, 5, -1}, (int32_t[]){1, 1, 4, 1});
}

/* A token goes to at most two experts of a rank, so a box has 8 rows; with one expert per rank it has 4. */
TEST(test_each_rank_has_a_box_that_suffices) {
    check_packed(2, (int32_t[]){8 + 0, 0, 8 + 1, 8 + 4, 1, 8 + 2, 8 + 3, -1}, (int32_t[]){1, 1, 4, 1});
    check_packed(4, (int32_t[]){8 + 0, 0, 8 + 1, 12 + 0, 4 + 0, 8 + 2, 8 + 3, -1}, (int32_t[]){1, 1, 4, 1});
}

/* Many choices, and more experts than a block has warps; five experts get no choice. */
static void make_many(struct op_case *c, enum dtype dtype) {
    enum { TOKENS = 150, CHOICES = 3, EXPERTS = 40 };
    (void)dtype;
    op_case_start(c, &op_moe_pack, 2);
    c->step.moe = (struct moe_rule){.experts = EXPERTS, .k = CHOICES, .group = 10, .places = 7, .packed = true};
    c->step.parts = 4;
    op_case_input(c, op_type(INT32, "BTk", 3, TOKENS / 3, CHOICES));
    op_case_finish(c);
    int32_t *picks = c->in[0].data;
    for (int i = 0; i < TOKENS * CHOICES; i++) {
        int e = (i / CHOICES * 7 + i % CHOICES) % (EXPERTS - 5);
        picks[i] = i % 11 ? e * 7 + i % 7 : -1 - e;
    }
}

TEST(test_moe_pack_equals_its_sibling) {
    struct op_case c, cpu;
    make_many(&c, INT32);
    make_many(&cpu, INT32);
    op_case_run(&c, ROW_FORWARD);
    op_case_run_on(&cpu, ROW_FORWARD, device_cpu());
    for (int i = 0; i < 2; i++)
        assert_memory_equal(c.out[i].data, cpu.out[i].data, (size_t)type_bytes(cpu.out[i].type));
    op_case_free(&cpu);
    op_case_free(&c);
}

/* Dispatch and combine by packed rows give each token times the number of its choices that are not dropped. */
TEST(test_dispatch_and_combine_find_packed_rows) {
    struct op_case c, sent, back;
    for (parts = 1; parts <= 4; parts *= 2) {
        make(&c, FP64);
        op_case_run(&c, ROW_FORWARD);
        op_case_start(&sent, &op_moe_dispatch, 1);
        sent.step.moe = c.step.moe, sent.step.parts = parts;
        op_case_input(&sent, op_type(FP64, "BTC", 1, T, 3));
        op_case_input(&sent, *c.out[0].type);
        op_case_finish(&sent);
        memcpy(sent.in[1].data, c.out[0].data, sizeof PICKS);
        op_case_run(&sent, ROW_FORWARD);
        op_case_start(&back, &op_moe_combine, 1);
        back.step.moe = c.step.moe, back.step.parts = parts;
        op_case_input(&back, *sent.out[0].type);
        op_case_input(&back, *c.out[0].type);
        op_case_input(&back, op_type(FP64, "BTk", 1, T, K));
        op_case_finish(&back);
        memcpy(back.in[0].data, sent.out[0].data, (size_t)type_bytes(sent.out[0].type));
        memcpy(back.in[1].data, c.out[0].data, sizeof PICKS);
        for (int i = 0; i < T * K; i++) ((double *)back.in[2].data)[i] = 1;
        op_case_run(&back, ROW_FORWARD);
        for (int i = 0; i < T * 3; i++)
            assert_close(((double *)back.out[0].data)[i], (i / 3 == T - 1 ? 1 : 2) * ((double *)sent.in[0].data)[i], 0);
        op_case_free(&back);
        op_case_free(&sent);
        op_case_free(&c);
    }
}

TEST(test_moe_pack_refuses) {
    struct type picks = op_type(INT32, "BTk", 1, T, K), out[MAX_OUT];
    struct step step = {.op = &op_moe_pack, .n_in = 1, .n_out = 2, .parts = 3, .moe = {.experts = E, .k = K}};
    struct call call = {.step = &step, .in = {{NULL, &picks}}};
    assert_fails(op_moe_pack.shape(&call, out), E_CONFIG, "moe_pack", "do not divide the experts");
}

TESTS(unit_test(test_siblings_moe_logits), unit_test(test_siblings_moe_route),
      unit_test(test_siblings_of_sigmoids_and_sets), unit_test(test_siblings_expert_linear),
      unit_test(test_siblings_moe_dispatch), unit_test(test_siblings_moe_combine),
      unit_test(test_siblings_of_a_long_group), unit_test(test_rows_of_an_expert_lie_after_one_another),
      unit_test(test_each_rank_has_a_box_that_suffices), unit_test(test_moe_pack_equals_its_sibling),
      unit_test(test_dispatch_and_combine_find_packed_rows), unit_test(test_moe_pack_refuses))
