/* ranks: 1 2  more: 4 8  device: cpu  threads: 1
 *
 * Stored dropout masks and redrawn ones give the same bits, losses and weights, in a layout with every kind of rank;
 * also with recomputation, which draws stored masks a second time. */
#include "driver/recipe.h"
#include "recompute/recompute.h"
#include "tests/layouts.h"
#include "tests/test.h"

static struct plan masks_plan(int precision, int attention) {
    struct plan p = parity_plan();
    int n = comm_world_size();
    p.precision = precision;
    model_options(&p)->attention = attention;
    p.mesh.tp = n >= 2 ? 2 : 1;
    p.mesh.pp = n >= 4 ? 2 : 1;
    p.mesh.dp = n >= 8 ? 2 : 1;
    plan_set_number(&p, "sp", p.mesh.tp > 1);
    p.micro_batch = 2;
    return p;
}

/* Train and hash; planned and measured bytes must agree on the way. */
static enum status bits_of(struct plan p, const struct reference *ref, uint64_t *bits) {
    struct difference d;
    TRY(plan_settle(&p, comm_world_size()));
    TRY(layout_compare(&p, ref, &d));
    *bits = d.bits;
    return d.memory == 0 ? OK : FAIL(E_INTERNAL, "measured memory is %g bytes off the plan", d.memory);
}

static enum status count_differing(const struct plan *plan, const struct reference *ref, int *differing) {
    uint64_t redrawn, stored;
    TRY(bits_of(*plan, ref, &redrawn));
    for (int recompute = RECOMPUTE_NONE; recompute <= RECOMPUTE_FULL; recompute++) {
        struct plan p = *plan;
        model_options(&p)->dropout_masks = MASKS_STORE;
        recompute_options(&p)->kind = recompute;
        TRY(bits_of(p, ref, &stored));
        *differing += stored != redrawn;
    }
    return OK;
}

static enum status compare_in(int precision, int *differing) {
    struct reference ref;
    struct plan serial = parity_plan();
    serial.precision = precision;
    enum status status = reference_init(&ref, &serial);
    for (int attention = ATTENTION_BLOCKED; attention <= ATTENTION_MATERIALISED && status == OK; attention++) {
        struct plan p = masks_plan(precision, attention);
        status = count_differing(&p, &ref, differing);
    }
    reference_fini(&ref);
    return status;
}

TEST(test_stored_masks_give_the_bits_of_redrawn_ones) {
    static const int precisions[] = {PRECISION_FP64, PRECISION_FP32, PRECISION_BF16};
    int differing = 0;
    enum status status = OK;
    for (int i = 0; i < 3 && agree_all(status == OK); i++) status = compare_in(precisions[i], &differing);
    bool same = agree_all(differing == 0);
    assert_ok(status);
    assert_true(same);
}

TESTS(unit_test(test_stored_masks_give_the_bits_of_redrawn_ones))
