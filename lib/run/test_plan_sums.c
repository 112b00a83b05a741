/* ranks: 1  device: cpu
 *
 * The options that --sums fixed refuses. */
#include "driver/recipe.h"
#include "mixed_precision/fp8.h"
#include "pp/pp.h"
#include "tests/test.h"
#include "tp/tp.h"
#include <string.h>

static struct plan fixed_plan(void) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    p.layers = 2, p.hidden = 32, p.heads = 4, p.seq = 16, p.vocab = 61;
    p.device = PLAN_DEVICE_CPU;
    p.sums = PLAN_SUMS_FIXED;
    return p;
}

TEST(test_fixed_sums_have_no_chunks_of_the_loss) {
    struct plan p = fixed_plan();
    assert_ok(plan_settle(&p, 1));
    assert_int_equal(p.loss_chunk, 0);
}

TEST(test_fixed_sums_want_powers_of_two) {
    struct plan p = fixed_plan();
    p.global_batch = 24;
    p.micro_batch = 8;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "global-batch / dp / micro-batch=3", "power of two", "sums=fast");
    p.micro_batch = 12;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "micro-batch=12", "power of two", "sums=fast");
    p.micro_batch = 0, p.mesh.dp = 3;
    assert_fails(plan_settle(&p, 3), E_CONFIG, "dp=3", "power of two", "sums=fast");
    p.mesh.dp = 8, p.micro_batch = 1;
    assert_fails(plan_settle(&p, 8), E_CONFIG, "micro-batch=3", "power of two");
    p.sums = PLAN_SUMS_FAST;
    assert_ok(plan_settle(&p, 8));
}

TEST(test_fixed_sums_refuse_what_has_no_order) {
    struct plan p = fixed_plan();
    p.device = PLAN_DEVICE_CUDA;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "device=cuda", "use device=cpu", "sums=fast");
    p = fixed_plan(), p.precision = PRECISION_FP64;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "precision=fp64", "fp32 and bf16", "sums=fast");
    p = fixed_plan(), p.precision = PRECISION_FP16;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "precision=fp16", "fp32 and bf16", "sums=fast");
    p = fixed_plan(), p.mesh.cp = 2;
    assert_fails(plan_settle(&p, 2), E_CONFIG, "shards of a sequence", "cp=2", "use cp=1", "sums=fast");
    p = fixed_plan(), model_options(&p)->experts = 4;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "routed", "experts=4", "use experts=0", "sums=fast");
    p = fixed_plan(), strcpy(comm_options(&p)->algorithm, "dp=ring");
    assert_fails(plan_settle(&p, 1), E_CONFIG, "as a tree", "comm-algorithm=dp=ring", "comm-algorithm=auto", "fast");
    p = fixed_plan(), p.loss_chunk = 64;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "by tokens", "loss-chunk=64", "use loss-chunk=0", "sums=fast");
    p = fixed_plan(), p.mesh.pp = 2, model_options(&p)->tie = 0, pp_options(&p)->schedule = SCHEDULE_2BW;
    assert_fails(plan_settle(&p, 2), E_CONFIG, "asynchronous", "use schedule 1f1b", "sums=fast");
}

/* Techniques refuse their own options themselves. */
TEST(test_techniques_refuse_what_has_no_fixed_sum) {
    struct run r;
    struct plan p = fixed_plan();
    struct model_options *m = model_options(&p);
    p.precision = PRECISION_BF16;
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "grad-fp32=off", "use grad-fp32", "fast");
    run_destroy(&r);
    p = fixed_plan(), fp8_options(&p)->on = 1;
    assert_ok(plan_settle(&p, 1));
    assert_fails(run_compile(&r, &train_recipe, &p, 0, NULL, NULL), E_CONFIG, "fp8=on", "leave fp8 out", "sums=fast");
    run_destroy(&r);
    p = fixed_plan(), p.mesh.tp = 4, m->ffn = 68, p.heads = 4;        /* 68 = 4 x 17 */
    assert_ok(plan_settle(&p, 4));
    assert_ok(technique_tp.check(&p));
    p.heads = 8, p.mesh.tp = 8, m->ffn = 72, p.hidden = 64, plan_set_number(&p, "sp", 1), p.seq = 24, p.vocab = 61;
    assert_ok(technique_tp.check(&p));
    p.mesh.tp = 16, p.heads = 16, m->ffn = 64, p.seq = 32;
    assert_fails(technique_tp.check(&p), E_CONFIG, "at most 8 equal parts", "tp=16", "tp=8 or less", "sums=fast");
}

TESTS(unit_test(test_fixed_sums_have_no_chunks_of_the_loss), unit_test(test_fixed_sums_want_powers_of_two),
      unit_test(test_fixed_sums_refuse_what_has_no_order), unit_test(test_techniques_refuse_what_has_no_fixed_sum))
