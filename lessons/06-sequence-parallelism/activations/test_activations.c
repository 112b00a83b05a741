/* ranks: 1  device: cpu
 *
 * The learner's formulas compared with compiled programs: bytes that layers save, bytes in the bill, and gradients that
 * are summed over tp. */
#include "lessons/06-sequence-parallelism/activations/activations.h"
#include "driver/recipe.h"
#include "lib/cost/activations.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct plan plan_of(const struct layout *l, int precision) {
    struct plan p = parity_plan();
    p.layers = l->layers, p.hidden = l->C, p.heads = l->heads, p.seq = l->T, p.micro_batch = l->B;
    p.global_batch = l->B * l->microbatches;
    p.mesh.tp = l->tp, tp_options(&p)->sp = l->sp, p.precision = precision, p.loss_chunk = 0;
    model_options(&p)->attention = l->materialised ? ATTENTION_MATERIALISED : ATTENTION_BLOCKED;
    model_options(&p)->dropout_masks = l->stored_masks ? MASKS_STORE : MASKS_REDRAW;
    return p;
}

struct truth { int64_t saved; double sent; };

static struct truth truth_of(const struct layout *l, int precision) {
    struct run r;
    struct truth t = {0};
    struct plan plan = plan_of(l, precision);
    assert_ok(plan_settle(&plan, (int)l->tp));
    assert_ok(run_compile(&r, &train_recipe, &plan, 0, NULL, NULL));
    struct activations *a = calloc((size_t)r.program.n_blocks, sizeof *a);
    assert_ok(activations_count(&r.program, &r.chunks[0], a));
    t.saved = a[1].bytes;                                            /* the first layer; 0 is the embedding */
    t.sent = r.bill.wire_bytes[AXIS_TP];
    free(a);
    run_destroy(&r);
    return t;
}

static void check(struct layout l, bool saved) {
    static const struct { int precision; int64_t element,
                          statistic; } kinds[] = {{PRECISION_FP64, 8, 8}, {PRECISION_FP32, 4, 4},
                                                  {PRECISION_BF16, 2, 4}};
    for (int k = 0; k < 3; k++) {
        l.element = kinds[k].element;
        struct truth t = truth_of(&l, kinds[k].precision);
        double mine = saved ? (double)saved_bytes(&l) : sent_bytes(&l, kinds[k].statistic),
               right = saved ? (double)t.saved : t.sent;
        if (*status_text()) fail_msg("%s", status_text());
        if (fabs(mine - right) > 1e-6 * right)
            fail_msg("L=%d B=%d T=%d C=%d heads=%d tp=%d%s, %d bytes a number%s%s: %.0f by your formula, and the "
                     "program %s %.0f",
                     (int)l.layers, (int)l.B, (int)l.T, (int)l.C, (int)l.heads, (int)l.tp, l.sp ? " sp" : "",
                     (int)l.element, l.stored_masks ? ", stored masks" : "",
                     l.materialised ? ", materialised attention" : "", mine, saved ? "saves" : "sends", right);
    }
}

static const struct layout SMALL = {.layers = 2, .B = 2, .T = 8, .C = 32, .heads = 8, .microbatches = 3, .tp = 1,
                                    .element = 0};
static const struct layout ODD = {.layers = 5, .B = 3, .T = 24, .C = 120, .heads = 24, .microbatches = 1, .tp = 1,
                                  .element = 0};

static struct layout with(struct layout l, int tp, bool sp, bool masks, bool materialised) {
    l.tp = tp, l.sp = sp, l.stored_masks = masks, l.materialised = materialised;
    return l;
}

TEST(test_a_layer_saves_on_one_rank) {
    check(with(SMALL, 1, false, false, false), true);
    check(with(ODD, 1, false, true, false), true);
}
TEST(test_a_layer_saves_under_tp) {
    for (int tp = 2; tp <= 8; tp *= 2) {
        check(with(SMALL, tp, false, false, false), true);
        check(with(ODD, tp, false, true, false), true);
    }
}
TEST(test_a_layer_saves_under_sp) {
    for (int tp = 2; tp <= 8; tp *= 2) {
        check(with(SMALL, tp, true, false, false), true);
        check(with(ODD, tp, true, true, false), true);
    }
}
TEST(test_materialised_attention_saves_its_scores) {
    for (int tp = 1; tp <= 8; tp *= 2)
        for (int masks = 0; masks < 2; masks++) {
            check(with(SMALL, tp, false, masks, true), true);
            check(with(ODD, tp, tp > 1, masks, true), true);
        }
}
TEST(test_a_step_sends_under_tp) {
    for (int tp = 1; tp <= 8; tp *= 2) {
        check(with(SMALL, tp, false, false, false), false);
        check(with(ODD, tp, false, false, false), false);
    }
}
TEST(test_a_step_sends_under_sp) {
    for (int tp = 2; tp <= 8; tp *= 2) {
        check(with(SMALL, tp, true, false, false), false);
        check(with(ODD, tp, true, false, false), false);
    }
}

/* Compare with the params whose gradients the program sums over tp. */
static void check_gradients(const struct layout *l) {
    struct run r;
    struct plan plan = plan_of(l, PRECISION_FP32);
    assert_ok(plan_settle(&plan, (int)l->tp));
    assert_ok(run_compile(&r, &train_recipe, &plan, 0, NULL, NULL));
    for (int i = 0; i < r.program.n_params; i++) {
        const struct param *w = &r.program.params[i];
        int mine = has_partial_gradient(l, strchr(w->name, '.') + 1);
        if (*status_text()) fail_msg("%s", status_text());
        int partial = w->reduce >> AXIS_TP & 1;
        if (mine != partial)
            fail_msg("tp=%d%s: %s %s, and you say %d", (int)l->tp, l->sp ? " sp" : "", w->name,
                     partial ? "has a part of its gradient on each rank" : "needs nothing from other ranks", mine);
    }
    run_destroy(&r);
}
TEST(test_gradients_are_parts_under_sp) {
    const struct layout one = with(SMALL, 1, false, false, false), tp = with(ODD, 2, false, false, false),
                        sp = with(ODD, 4, true, false, false);
    check_gradients(&sp);
    check_gradients(&tp);
    check_gradients(&one);
}

TESTS(unit_test(test_a_layer_saves_on_one_rank), unit_test(test_a_layer_saves_under_tp),
      unit_test(test_a_layer_saves_under_sp), unit_test(test_materialised_attention_saves_its_scores),
      unit_test(test_a_step_sends_under_tp), unit_test(test_a_step_sends_under_sp),
      unit_test(test_gradients_are_parts_under_sp))
