/* ranks: 1 2 4  device: cpu */
/* The step compared with the same arithmetic in fp64 on the true gradients. */
#include "lessons/08-mixed-precision/step/half_step.h"
#include "tests/test.h"

#include <stdio.h>
#include <string.h>

enum { MOST = 64 };

/* A rank's part: rank r has 8 + 3 r weights; with several ranks, rank 0 has none. */
struct part { int64_t n; double w[MOST], g[MOST]; uint16_t weight[MOST], gradient[MOST]; float master[MOST]; };

static int64_t own_n(void) { return comm_world_size() > 1 && comm_world_rank() == 0 ? 0 : 8 + 3 * comm_world_rank(); }

/* Make gradients of about `size`, scaled by the loss scale and rounded to fp16; g is the true gradient after this one
 * rounding. */
static void part_make(struct part *p, double size, double scale) {
    memset(p, 0, sizeof *p);
    p->n = own_n();
    for (int64_t i = 0; i < p->n; i++) {
        double at = (double)(i + 100 * comm_world_rank());
        p->master[i] = (float)(1 + 0.5 * sin(at));
        p->w[i] = (double)p->master[i];
        p->weight[i] = fp16_from_float(p->master[i]);
        p->gradient[i] = fp16_from_float((float)(scale * size * (1.5 + cos(3 * at))));
        p->g[i] = (double)fp16_to_float(p->gradient[i]) / scale;
    }
}

static double sum_over_world(double x) {
    return comm_all_reduce(group_world(), &x, 1, FP64, COMM_SUM) == OK ? x : NAN;
}
static double true_norm(const struct part *p) {
    double squares = 0;
    for (int64_t i = 0; i < p->n; i++) squares += p->g[i] * p->g[i];
    return sqrt(sum_over_world(squares));
}

/* The error on this rank, as a sentence; NULL: no error. */
static const char *check_part(const struct part *p, const struct half_options *o, double norm,
                              const struct half_result *r) {
    static char text[200];
    double factor = fmin(1, o->clip / (norm + 1e-6));
    if (r->skipped) return "the step was skipped";
    if (!(fabs(r->norm - norm) <= 1e-6 * norm)) {
        snprintf(text, sizeof text, "norm is %g, and should be %g", r->norm, norm);
        return text;
    }
    for (int64_t i = 0; i < p->n; i++) {
        double want = p->w[i] - o->lr * factor * p->g[i], step = fabs(want - p->w[i]);
        if (!(fabs((double)p->master[i] - want) <= 0x1p-23 * fabs(want) + 1e-5 * step)) {
            snprintf(text, sizeof text, "master %d went from %.9g to %.9g, and should be %.9g", (int)i, p->w[i],
                     (double)p->master[i], want);
            return text;
        }
        if (p->weight[i] != fp16_from_float(p->master[i])) {
            snprintf(text, sizeof text, "weight %d is %.9g; its master, rounded, is %.9g", (int)i,
                     (double)fp16_to_float(p->weight[i]), (double)fp16_to_float(fp16_from_float(p->master[i])));
            return text;
        }
    }
    return NULL;
}

static void check_step(double size, const struct half_options *o) {
    static struct part p;
    struct half_result r = {true, 0};
    part_make(&p, size, o->scale);
    double norm = true_norm(&p);
    enum status status = half_step(group_world(), o, p.n, p.weight, p.master, p.gradient, &r);
    const char *wrong = status == OK ? check_part(&p, o, norm, &r) : NULL;
    bool ok = agree_all(status == OK), right = agree_all(!wrong);
    assert_ok(status);
    if (!ok) fail_msg("another rank's step failed");
    if (wrong) fail_msg("%s", wrong);
    if (!right) fail_msg("another rank's step is wrong");
}

TEST(test_half_step_without_clipping_is_gradient_descent) {
    check_step(0.01, &(struct half_options){0.5, 1e9, 1});
    check_step(0.01, &(struct half_options){0.5, 1e9, 1024});
}

/* S g is about 1e-1. g is about 1e-9, which is zero in 16 bits. */
TEST(test_half_step_keeps_gradients_below_fp16s_range) {
    check_step(1e-9, &(struct half_options){1e7, 1e9, 0x1p27});
}

/* Norms of the true gradient below and above the clip. With the scale all norms would be far above. */
TEST(test_half_step_clips_the_norm_of_all_ranks_without_the_scale) {
    check_step(0.01, &(struct half_options){0.5, 1, 4096});
    check_step(0.5, &(struct half_options){0.5, 1, 4096});
    check_step(0.5, &(struct half_options){0.5, 1, 1});
}

/* 100 updates of 1e-4 to a weight near 1, where fp16's spacing is 1e-3 or 5e-4. */
TEST(test_half_step_adds_up_small_updates) {
    struct half_options o = {1e-2, 1e9, 256};
    uint16_t weight = fp16_from_float(1.2f), gradient = fp16_from_float(256 * 0.01f);
    float master = 1.2f;
    enum status status = OK;
    for (int i = 0; i < 100 && status == OK; i++) {
        struct half_result r;
        status = half_step(group_world(), &o, 1, &weight, &master, &gradient, &r);
    }
    double value = (double)fp16_to_float(weight);
    bool ok = agree_all(status == OK);
    assert_ok(status);
    if (!ok) fail_msg("another rank's step failed");
    assert_close(value, 1.2 - 100 * 1e-4, 0x1p-11 + 1e-5);
}

static void check_skip(uint16_t bad, int who) {
    static struct part p, before;
    struct half_options o = {0.5, 1, 4096};
    struct half_result r = {false, 0};
    part_make(&p, 0.01, o.scale);
    if (comm_world_rank() == who) p.gradient[p.n - 1] = bad;
    before = p;
    enum status status = half_step(group_world(), &o, p.n, p.weight, p.master, p.gradient, &r);
    bool same = memcmp(&p, &before, sizeof p) == 0, skipped = r.skipped && isnan(r.norm);
    bool ok = agree_all(status == OK), all_same = agree_all(same), all_skipped = agree_all(skipped);
    assert_ok(status);
    if (!ok) fail_msg("another rank's step failed");
    if (!skipped)
        fail_msg("rank %d alone sees an overflow (%04x), and this rank does not say: skipped, norm NaN", who, bad);
    if (!same) fail_msg("rank %d alone sees an overflow (%04x), and this rank has changed something", who, bad);
    assert_true(all_same && all_skipped);
}
TEST(test_half_step_of_one_ranks_overflow_is_skipped_by_all) {
    static const uint16_t bad[] = {0x7c00, 0xfc00, 0x7e00};          /* infinity, minus infinity, NaN */
    for (int i = 0; i < 3; i++) check_skip(bad[i], comm_world_size() - 1);
    if (comm_world_size() > 2) check_skip(bad[0], 1);
}

TESTS(unit_test(test_half_step_without_clipping_is_gradient_descent),
      unit_test(test_half_step_keeps_gradients_below_fp16s_range),
      unit_test(test_half_step_clips_the_norm_of_all_ranks_without_the_scale),
      unit_test(test_half_step_adds_up_small_updates),
      unit_test(test_half_step_of_one_ranks_overflow_is_skipped_by_all))
