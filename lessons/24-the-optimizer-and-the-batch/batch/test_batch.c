/* ranks: 1  device: cpu
 *
 * AdamW compared with its formula and with the library's bits; noise and critical batch with numbers that obey their
 * laws; sizes with a search; operations with those of trivium budget. */
#include "lessons/24-the-optimizer-and-the-batch/batch/batch.h"

#include "lib/base/rng.h"
#include "lib/ops/optimizer.h"
#include "planner/budget.h"
#include "tests/test.h"
#include <string.h>

enum { N = 1031, STEPS = 40 };
static const struct adamw SETTINGS = {1e-2, 0.1, 0.9, 0.95, 1e-8};
struct state { float w[N], m[N], v[N]; };

static void begin(struct state *s, uint64_t seed) {
    memset(s, 0, sizeof *s);
    for (int i = 0; i < N; i++) s->w[i] = (float)rng_normal(seed, 1, (uint64_t)i);
}

/* Gradients of very different sizes: element i has 10^-4 to 10^2. */
static void draw(float g[N], uint64_t seed, int64_t t) {
    for (int i = 0; i < N; i++) g[i] = (float)(rng_normal(seed, 2 + (uint64_t)t, (uint64_t)i) * pow(10, i % 7 - 4));
}

TEST(test_batch_adamw_first_step_is_the_rate) {
    struct state *s = test_block(sizeof *s);
    float g[N];
    begin(s, 7);
    memset(s->w, 0, sizeof s->w);
    draw(g, 7, 1);
    assert_ok(batch_adamw(&SETTINGS, 1, false, N, s->w, s->m, s->v, g));
    for (int i = 0; i < N; i++)
        if (fabsf(g[i]) > 1e-4f && !(fabs(s->w[i] + copysign(1e-2, g[i])) <= 1e-5))
            fail_msg("step 1, gradient %g, rate 0.01: you move the weight by %g, right is %g", g[i], s->w[i],
                     -copysign(1e-2, g[i]));
}

/* The formula in double. A weight is below 5, and moves by about 0.01 in each of 40 steps. Float's errors stay below
 * 1e-5. */
static void check_formula(bool decay) {
    struct state *s = test_block(sizeof *s);
    static double w[N], m[N], v[N];
    float g[N];
    begin(s, 8);
    for (int i = 0; i < N; i++) w[i] = s->w[i], m[i] = v[i] = 0;
    for (int64_t t = 1; t <= STEPS; t++) {
        draw(g, 8, t);
        assert_ok(batch_adamw(&SETTINGS, t, decay, N, s->w, s->m, s->v, g));
        double c1 = 1 - pow(SETTINGS.beta1, (double)t), c2 = 1 - pow(SETTINGS.beta2, (double)t);
        for (int i = 0; i < N; i++) {
            m[i] += (1 - SETTINGS.beta1) * (g[i] - m[i]);
            v[i] += (1 - SETTINGS.beta2) * ((double)g[i] * g[i] - v[i]);
            double decayed = decay ? SETTINGS.weight_decay * w[i] : 0;
            w[i] -= SETTINGS.lr * (decayed + m[i] / c1 / (sqrt(v[i] / c2) + SETTINGS.eps));
            if (!(fabs(s->w[i] - w[i]) <= 1e-5))
                fail_msg("after step %d, %s: your weight %d is %.7g, right is %.7g", (int)t,
                         decay ? "with weight decay" : "without weight decay", i, s->w[i], w[i]);
        }
    }
}

TEST(test_batch_adamw_is_its_formula) { check_formula(false); }
TEST(test_batch_adamw_decays_the_weight_itself) { check_formula(true); }

static void update_library(struct state *s, const float *g, int64_t t, bool decay) {
    static const double one = 1;
    const struct optimizer_settings a = {.lr = SETTINGS.lr, .weight_decay = SETTINGS.weight_decay,
                                         .beta1 = SETTINGS.beta1, .beta2 = SETTINGS.beta2, .eps = SETTINGS.eps,
                                         .grad_multiplier = &one, .step = t};
    const struct optimizer_elements e = {N, s->w, FP32, g, FP32, {s->m, s->v}, NULL, .decay = decay};
    assert_ok(optimizer_update(&optimizer_adamw, device_cpu(), &a, &e, 1));
}

TEST(test_batch_adamw_has_the_librarys_bits) {
    struct state *s = test_block(sizeof *s), *library = test_block(sizeof *library);
    float g[N];
    begin(s, 9);
    *library = *s;
    for (int64_t t = 1; t <= STEPS; t++) {
        draw(g, 9, t);
        assert_ok(batch_adamw(&SETTINGS, t, t % 2, N, s->w, s->m, s->v, g));
        update_library(library, g, t, t % 2);
        for (int i = 0; i < N; i++)
            if (memcmp(&s->m[i], &library->m[i], 4) || memcmp(&s->v[i], &library->v[i], 4) ||
                memcmp(&s->w[i], &library->w[i], 4))
                fail_msg("step %d, element %d: your m, v, w are %a, %a, %a, the library's are %a, %a, %a", (int)t, i,
                         s->m[i], s->v[i], s->w[i], library->m[i], library->v[i], library->w[i]);
    }
}

TEST(test_batch_noise_is_that_of_its_law) {
    for (int i = 0; i < 200; i++) {
        double squared = (double)test_drawn(1, 1000) / 64, trace = (double)test_drawn(1, 100000) / 64;
        double b = (double)test_drawn(1, 16), more = b + (double)test_drawn(1, 500), gradient = NAN, noise = NAN;
        double scale = NAN;
        const struct measured few = {b, squared + trace / b}, many = {more, squared + trace / more};
        assert_ok(batch_noise(few, many, &gradient, &noise, &scale));
        double sum = squared + trace;
        if (!(fabs(gradient - squared) <= 1e-6 * sum) || !(fabs(noise - trace) <= 1e-6 * sum * more))
            fail_msg("batches of %g and %g, squared norms %g and %g: you say gradient %g and noise %g, right is %g, %g",
                     b, more, squared + trace / b, squared + trace / more, gradient, noise, squared, trace);
        if (!(fabs(scale * squared - trace) <= 1e-4 * sum))
            fail_msg("gradient %g, noise %g: you say the noise scale is %g samples, right is %g", squared, trace,
                     scale, trace / squared);
    }
}

TEST(test_batch_noise_refuses_what_is_no_gradient) {
    double gradient, noise, scale;
    static const struct measured few = {4, 1}, many = {64, 0.05};
    assert_fails(batch_noise(few, many, &gradient, &noise, &scale), E_DATA, "");
    assert_fails(batch_noise(few, few, &gradient, &noise, &scale), E_DATA, "");
}

TEST(test_batch_critical_is_that_of_its_law) {
    for (int i = 0; i < 200; i++) {
        double right[2] = {(double)test_drawn(10, 1000), (double)test_drawn(1, 500)}, b = (double)test_drawn(1, 16);
        double more = b + (double)test_drawn(1, 500), least = NAN, critical = NAN;
        const struct taken runs[2] = {{b, right[0] * (1 + right[1] / b)}, {more, right[0] * (1 + right[1] / more)}};
        assert_ok(batch_critical(runs[0], runs[1], &least, &critical));
        if (!(fabs(least - right[0]) <= 1e-4 * right[0]) || !(fabs(critical - right[1]) <= 1e-4 * right[1]))
            fail_msg("batches of %g and %g take %g and %g steps: you say least %g, critical batch %g, right is %g, %g",
                     b, more, runs[0].steps, runs[1].steps, least, critical, right[0], right[1]);
    }
    double least, critical;
    assert_fails(batch_critical((struct taken){4, 100}, (struct taken){64, 200}, &least, &critical), E_DATA, "");
    assert_fails(batch_critical((struct taken){4, 100}, (struct taken){4, 100}, &least, &critical), E_DATA, "");
}

/* A search through all sizes with these operations finds no lower loss. */
TEST(test_batch_sizes_have_the_least_loss) {
    for (int i = 0; i < 100; i++) {
        const struct law law = {1.5, (double)test_drawn(50, 800), (double)test_drawn(20, 60) / 100,
                                (double)test_drawn(50, 800), (double)test_drawn(20, 60) / 100};
        double flops = pow(10, (double)test_drawn(15, 25)), params = NAN, tokens = NAN, best = INFINITY, at = NAN;
        assert_ok(batch_sizes(&law, flops, &params, &tokens));
        if (!(fabs(6 * params * tokens / flops - 1) <= 1e-6))
            fail_msg("%g operations: your %g parameters and %g tokens make %g", flops, params, tokens,
                     6 * params * tokens);
        for (double n = pow(flops / 6, 0.1); n < flops / 6; n *= 1.001) {
            double loss = law.a / pow(n, law.alpha) + law.b / pow(flops / 6 / n, law.beta);
            if (loss < best) best = loss, at = n;
        }
        if (!(fabs(params / at - 1) <= 0.002))
            fail_msg("a %g, alpha %g, b %g, beta %g, %g operations: you say %g parameters, right is %g", law.a,
                     law.alpha, law.b, law.beta, flops, params, at);
    }
}

TEST(test_batch_flops_are_those_of_the_budget) {
    const struct cluster no_failures = {.level[0].ranks = 8};
    for (int i = 0; i < 50; i++) {
        double days = (double)test_drawn(1, 90), ranks = (double)test_drawn(1, 16384), flops = NAN;
        double mfu = (double)test_drawn(10, 60) / 100;
        assert_ok(batch_flops(days, ranks, 989e12, mfu, &flops));
        struct budget b = budget_make(&no_failures, &(struct budget_of){flops, 989e12, mfu, ranks, 0, 0, 0});
        if (!(fabs(b.ideal_s / 86400 / days - 1) <= 1e-9))
            fail_msg("%g days, %g ranks of 989 Tflop/s, mfu %g: your %g operations take %g days", days, ranks, mfu,
                     flops, b.ideal_s / 86400);
    }
}

TESTS(unit_test(test_batch_adamw_first_step_is_the_rate), unit_test(test_batch_adamw_is_its_formula),
      unit_test(test_batch_adamw_decays_the_weight_itself), unit_test(test_batch_adamw_has_the_librarys_bits),
      unit_test(test_batch_noise_is_that_of_its_law), unit_test(test_batch_noise_refuses_what_is_no_gradient),
      unit_test(test_batch_critical_is_that_of_its_law), unit_test(test_batch_sizes_have_the_least_loss),
      unit_test(test_batch_flops_are_those_of_the_budget))
