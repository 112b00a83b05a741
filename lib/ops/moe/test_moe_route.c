/* ranks: 1 */
#include "lib/ops/moe/moe_route.h"
#include "lib/ops/test_op.h"

enum { E = 5, T = 6, B = 3 };
static struct moe_rule rule = {.experts = E, .k = 2, .group = 3, .places = 2};

static void make(struct op_case *c, enum dtype dtype) {
    op_case_start(c, &op_moe_route, 3);
    c->step.moe = rule;
    c->settings.loss_weight = 1.0 / (B * T);
    op_case_input(c, op_type(dtype, "BTE", B, T, E));
    if (rule.sigmoid) op_case_weight(c, op_type(dtype_accumulator(dtype), "E", E));
    op_case_finish(c);
    /* further apart than sigmoids of make_apart's logits: a difference changes no choice */
    for (int e = 0; e < E && rule.sigmoid; e++)
        dtype_set(c->weight[0].data, dtype_accumulator(dtype), e, 0.3 * (e * 3 % E) - 0.5);
}

/* ---- slopes ----
 * The choices must not change between the points of a difference. Two logits of a token differ by more than 0.01
 * (checked here), and a difference moves them by 2e-3 at most. */
static void check_no_ties(const struct op_case *c) {
    const double *x = c->in[0].data;
    for (int t = 0; t < B * T; t++)
        for (int e = 0; e < E; e++)
            for (int f = 0; f < e; f++) assert_true(fabs(x[t * E + e] - x[t * E + f]) > 0.01);
}

/* Logits that are multiples of 0.02 apart within a token, in another order for each token. */
static void make_apart(struct op_case *c, enum dtype dtype) {
    make(c, dtype);
    for (int i = 0; i < B * T * E; i++)
        dtype_set(c->in[0].data, dtype, i, 0.02 * ((i % E * 7 + i / E * 3) % 11) * (1 + i / E % 3));
}

TEST(test_gates_have_the_slope_as_gradient) {
    struct op_case c;
    for (int i = 0; i < 18; i++) {
        rule = (struct moe_rule){.experts = E, .k = 1 + i % 3, .group = 3, .places = 2, .raw = i / 3 % 2,
                                 .sigmoid = i >= 6, .scale = i >= 6 ? 1.7 : 0, .sets = i < 12 ? 0 : E,
                                 .sets_per_token = 3};
        make_apart(&c, FP64);
        check_no_ties(&c);
        op_case_free(&c);
        op_case_check_gradients(make_apart);
    }
}

/* A uniform router: raw gates are 1/E, and others 1/k. */
TEST(test_raw_gates_are_probabilities) {
    for (int raw = 0; raw < 2; raw++) {
        struct op_case c;
        rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 3, .raw = raw};
        make(&c, FP64);
        for (int i = 0; i < B * T * E; i++) ((double *)c.in[0].data)[i] = 0.5;
        op_case_run(&c, ROW_FORWARD);
        for (int i = 0; i < B * T * 2; i++) assert_close(((double *)c.out[0].data)[i], raw ? 1.0 / E : 0.5, 1e-15);
        op_case_free(&c);
    }
}

/* gates . dgates + losses */
static double objective(struct op_case *c) {
    op_case_run(c, ROW_FORWARD);
    double sum = ((double *)c->out[2].data)[0];
    for (int64_t i = 0; i < type_n(&c->out_type[0]); i++)
        sum += ((double *)c->out[0].data)[i] * ((double *)c->dout[0].data)[i];
    return sum;
}

/* Central differences over h = 1e-4: h^2 f'''/6 is 2e-9 times a third derivative, which is about 1 here. */
static void check_slopes_of_losses(double aux, double z, int64_t places, bool sigmoid) {
    struct op_case c;
    const double h = 1e-4;
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = places, .aux = aux, .z = z,
                             .sigmoid = sigmoid};
    make_apart(&c, FP64);
    double *x = c.in[0].data, *dx = c.din[0].data;
    op_case_run_all(&c);
    for (int i = 0; i < B * T * E; i++) {
        double x0 = x[i], above, below;
        x[i] = x0 + h, above = objective(&c);
        x[i] = x0 - h, below = objective(&c);
        x[i] = x0;
        assert_close(dx[i], (above - below) / (2 * h), 1e-8);
    }
    op_case_free(&c);
}

TEST(test_losses_have_the_slope_as_gradient) {
    for (int sigmoid = 0; sigmoid < 2; sigmoid++) {
        check_slopes_of_losses(0.7, 0, 2, sigmoid);
        check_slopes_of_losses(0, 0.3, 2, sigmoid);
        check_slopes_of_losses(0.7, 0.3, 1, sigmoid);
        check_slopes_of_losses(0.7, 0.3, 3, sigmoid);
    }
}

/* 32 is enough for an exponential, a sum of 5 and a quotient, and for the same again in backward. */
TEST(test_route_in_every_precision) {
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 2, .aux = 0.1, .z = 0.1};
    for (int i = 0; i < 2; i++, rule.sigmoid = true, rule.scale = 1.7) {
        op_case_check_precisions(make_apart, 32, 0);
        op_case_check_aliases(make_apart);
        op_case_check_threads(make_apart);
    }
}

/* ---- places, by hand ---- */
static void set_choices(struct op_case *c, const int (*of)[2]) {
    double *x = c->in[0].data;
    for (int t = 0; t < B * T; t++)
        for (int e = 0; e < E; e++) x[t * E + e] = e == of[t % 3][0] ? 2 : e == of[t % 3][1] ? 1 : 0.1 * e;
}

/* A group of three tokens, and two places per expert. Tokens 0 and 1 choose expert 1 first, so token 2, whose second
 * choice is expert 1, gets no place. */
TEST(test_first_choices_and_lower_positions_come_first) {
    struct op_case c;
    const int of[3][2] = {{1, 0}, {1, 4}, {4, 1}};
    const int32_t picks[] = {1 * 2 + 0, 0 * 2 + 0, 1 * 2 + 1, 4 * 2 + 1, 4 * 2 + 0, -1 - 1};
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 2, .aux = 1};
    make(&c, FP64);
    set_choices(&c, of);
    op_case_run(&c, ROW_FORWARD);
    for (int i = 0; i < B * T * 2; i++) assert_int_equal(((int32_t *)c.out[1].data)[i], picks[i % 6]);
    const double *sums = c.out[2].data;
    assert_close(sums[1], 3 / (3 * 2 / 5.0), 1e-14);                 /* 3 choices of expert 1; the mean is 6 / 5 */
    assert_close(sums[2], 1 / 6.0, 1e-15);
    op_case_free(&c);
}

TEST(test_ties_go_to_the_lower_expert) {
    struct op_case c;
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 3};
    make(&c, FP64);
    for (int i = 0; i < B * T * E; i++) ((double *)c.in[0].data)[i] = i % E == 0 ? -1 : 1;
    op_case_run(&c, ROW_FORWARD);
    const int32_t *picks = c.out[1].data;
    for (int t = 0; t < B * T; t++) {
        assert_int_equal(picks[2 * t] / 3, 1);
        assert_int_equal(picks[2 * t + 1] / 3, 2);
    }
    op_case_free(&c);
}

/* A uniform router has p_e = 1/E, so the load loss is aux, and lse = log E. */
TEST(test_losses_of_a_uniform_router) {
    struct op_case c;
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 3, .aux = 0.5, .z = 0.25};
    make(&c, FP64);
    for (int i = 0; i < B * T * E; i++) ((double *)c.in[0].data)[i] = 0;
    op_case_run(&c, ROW_FORWARD);
    assert_close(((double *)c.out[2].data)[0], 0.5 + 0.25 * log(5) * log(5), 1e-14);
    op_case_free(&c);
}

/* ---- sigmoids, sets ---- */
enum { MANY = 8 };

/* The expert of the largest value that is allowed; it is no longer. */
static int take_best(const double *value, int n, bool *allowed) {
    int best = -1;
    for (int i = 0; i < n; i++)
        if (allowed[i] && (best < 0 || value[i] > value[best])) best = i;
    allowed[best] = false;
    return best;
}

/* What transformers' DeepseekV3TopkRouter chooses, or with softmax DeepseekV2's: two sets of four, by their two best,
 * or by their best; then three experts. */
static void reference_choice(const double *logits, const double *bias, bool sigmoid, int picks[3]) {
    double value[MANY], set[4];
    bool open[4] = {true, true, true, true}, allowed[MANY] = {false};
    for (int e = 0; e < MANY; e++) value[e] = sigmoid ? 1 / (1 + exp(-logits[e])) + bias[e] : logits[e];
    for (int i = 0; i < 4; i++)
        set[i] = sigmoid ? value[2 * i] + value[2 * i + 1] : fmax(value[2 * i], value[2 * i + 1]);
    for (int j = 0; j < 2; j++) {
        int i = take_best(set, 4, open);
        allowed[2 * i] = allowed[2 * i + 1] = true;
    }
    for (int j = 0; j < 3; j++) picks[j] = take_best(value, MANY, allowed);
}

/* Biases are negative, so that an expert beyond the sets would be chosen if its value were 0; gates have none. */
TEST(test_choices_and_gates_are_deepseeks) {
    for (int sigmoid = 0; sigmoid < 2; sigmoid++) {
        struct op_case c;
        op_case_start(&c, &op_moe_route, 3);
        c.step.moe = (struct moe_rule){.experts = MANY, .k = 3, .group = 3, .places = 3, .sigmoid = sigmoid,
                                       .raw = !sigmoid, .scale = 2.5, .sets = 4, .sets_per_token = 2};
        op_case_input(&c, op_type(FP64, "BTE", B, T, MANY));
        if (sigmoid) op_case_weight(&c, op_type(FP64, "E", MANY));
        op_case_finish(&c);
        double *bias = sigmoid ? c.weight[0].data : NULL;
        for (int e = 0; e < MANY && sigmoid; e++) bias[e] = -1 - 0.4 * rng_uniform(5, 6, (uint64_t)e);
        op_case_run(&c, ROW_FORWARD);
        for (int t = 0; t < B * T; t++) {
            const double *x = (double *)c.in[0].data + t * MANY, *gate = (double *)c.out[0].data + 3 * t;
            double sum = 0, score[3];
            int picks[3];
            reference_choice(x, bias, sigmoid, picks);
            for (int e = 0; e < MANY && !sigmoid; e++) sum += exp(x[e]);
            for (int j = 0; j < 3; j++) score[j] = sigmoid ? 1 / (1 + exp(-x[picks[j]])) : exp(x[picks[j]]);
            for (int j = 0; j < 3 && sigmoid; j++) sum += score[j];
            for (int j = 0; j < 3; j++) {
                assert_int_equal(((int32_t *)c.out[1].data)[3 * t + j] / 3, picks[j]);
                assert_close(gate[j], 2.5 * score[j] / sum, 1e-14);
            }
        }
        op_case_free(&c);
    }
}

/* E times the choices, also those that are dropped, without the mean; each microbatch adds. */
TEST(test_the_gradient_of_a_bias_is_the_load) {
    struct op_case c;
    const int of[3][2] = {{1, 0}, {1, 4}, {4, 1}};                   /* of a group: 1, 3, 0, 0 and 2 choices */
    const double load[E] = {1, 3, 0, 0, 2};
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 2, .sigmoid = true};
    make(&c, FP64);
    c.step.op = &op_moe_route_biased;
    for (int e = 0; e < E; e++) ((double *)c.weight[0].data)[e] = ((double *)c.dweight[0].data)[e] = 0;
    set_choices(&c, of);
    op_case_run(&c, ROW_FORWARD);
    for (int n = 1; n <= 2; n++) {
        op_case_run(&c, ROW_BACKWARD_WEIGHT);
        for (int e = 0; e < E; e++)
            assert_close(((double *)c.dweight[0].data)[e], n * B * T / 3 * (E * load[e] - 3 * 2), 0);
    }
    op_case_free(&c);
}

/* If all logits are NaN, the picks are still experts, and the loss is NaN. */
TEST(test_what_is_not_a_number_shows_in_the_loss) {
    struct op_case c;
    rule = (struct moe_rule){.experts = E, .k = 2, .group = 3, .places = 3, .aux = 1};
    make(&c, FP32);
    for (int e = 0; e < E; e++) ((float *)c.in[0].data)[e] = NAN;
    op_case_run(&c, ROW_FORWARD);
    assert_true(isnan(((float *)c.out[2].data)[0]) && isnan(((float *)c.out[0].data)[0]));
    for (int j = 0; j < 2; j++) assert_true(((int32_t *)c.out[1].data)[j] / 3 < E);
    op_case_free(&c);
}

TEST(test_places_are_the_share_rounded_up) {
    assert_int_equal(moe_places(1, 256, 2, 8), 64);
    assert_int_equal(moe_places(1.25, 256, 2, 8), 80);
    assert_int_equal(moe_places(1.25, 6, 1, 4), 2);                  /* 1.875 */
    assert_int_equal(moe_places(0, 256, 2, 8), 256);
    assert_int_equal(moe_places(100, 256, 2, 8), 256);
}

/* ---- refusals ---- */
static enum status shape_of(struct type logits, const struct moe_rule *of) {
    struct type out[MAX_OUT];
    struct step step = {.op = &op_moe_route, .n_in = 1, .n_out = 3, .moe = *of};
    struct call call = {.step = &step, .in = {{NULL, &logits}}};
    return op_moe_route.shape(&call, out);
}

TEST(test_route_refuses) {
    struct type logits = op_type(FP32, "BTE", 2, 24, 4);
    struct moe_rule of = {.experts = 4, .k = 2, .group = 12, .places = 3};
    assert_ok(shape_of(logits, &of));
    assert_fails(shape_of(op_type_part(logits, 'T', 6, 6), &of), E_CONFIG, "moe-group=12", "6 tokens", "moe-group 6");
    logits.shape.axis[1] = axis_zigzag('T', 24, 2, 1);               /* two runs of 6, which lie together */
    of.group = 6;
    assert_ok(shape_of(logits, &of));
    logits.shape.axis[1] = axis_zigzag('T', 24, 2, 0);
    of.group = 12;
    assert_fails(shape_of(logits, &of), E_CONFIG, "moe-group=12", "6 tokens", "moe-group 6");
    of = (struct moe_rule){.experts = 4, .k = 5, .group = 1, .places = 1};
    assert_fails(shape_of(op_type(FP32, "BTE", 2, 24, 4), &of), E_CONFIG, "moe_route", "more experts", "E 4");
    of = (struct moe_rule){.experts = 4, .k = 2, .group = 1, .places = 1, .sets = 3, .sets_per_token = 3};
    assert_fails(shape_of(op_type(FP32, "BTE", 2, 24, 4), &of), E_CONFIG, "moe_route", "sets", "E 4");
    of.sets = 4, of.sets_per_token = 1;
    assert_fails(shape_of(op_type(FP32, "BTE", 2, 24, 4), &of), E_CONFIG, "moe_route", "too few experts", "E 4");
}

TESTS(unit_test(test_gates_have_the_slope_as_gradient), unit_test(test_losses_have_the_slope_as_gradient),
      unit_test(test_raw_gates_are_probabilities),
      unit_test(test_route_in_every_precision), unit_test(test_first_choices_and_lower_positions_come_first),
      unit_test(test_ties_go_to_the_lower_expert), unit_test(test_losses_of_a_uniform_router),
      unit_test(test_choices_and_gates_are_deepseeks),
      unit_test(test_the_gradient_of_a_bias_is_the_load),
      unit_test(test_what_is_not_a_number_shows_in_the_loss), unit_test(test_places_are_the_share_rounded_up),
      unit_test(test_route_refuses))
