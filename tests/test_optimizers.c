/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * Promises 1 and 2 for every optimizer except AdamW, which other tests cover: layouts that cover all techniques
 * have the serial run's numbers, and bytes follow from the states of the optimizer's row. */
#include "driver/recipe.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>

/* SGD moves a weight by lr g, and no small divisor enlarges a rounding, so a layout is within a few roundings of the
 * serial run (on 4 ranks differences are 5e-15 of a gradient, 1.3e-15 of a weight). Adam's eps leaves 1e-10. */
static const double SGD_BOUND = 1e-13;

static struct plan sgd_plan(double momentum) {
    struct plan p = parity_plan();
    p.optimizer = OPTIMIZER_SGD;
    p.momentum = momentum;
    p.lr = 0.5, p.min_lr = 0.1;
    return p;
}

/* Muon's iteration enlarges small singular values up to 3.4445^5 = 485 times, and with them their rounding: on 4 ranks
 * differences are 2e-13 of a weight. */
static const double MUON_BOUND = 1e-12;

static struct plan muon_plan(void) {
    struct plan p = parity_plan();
    p.optimizer = OPTIMIZER_MUON;
    return p;
}

static bool is_serial(struct plan p, const struct reference *reference) {
    const double BOUND = p.optimizer == OPTIMIZER_MUON ? MUON_BOUND : SGD_BOUND;
    struct difference d = {0};
    enum status status = plan_settle(&p, comm_world_size());
    if (status == OK) status = layout_compare(&p, reference, &d);
    bool ok = agree_all(status == OK && d.loss < BOUND && d.norm < BOUND && d.grad < BOUND && d.weight < BOUND &&
                        d.memory == 0 && d.wire < 1e-12 && d.padding == 0);
    if (!ok && comm_is_rank_0())
        fprintf(stderr, "%s: %s, loss %.1e norm %.1e grad %.1e weight %.1e memory %g B wire %.1e\n", layout_name(&p),
                status_name(status), d.loss, d.norm, d.grad, d.weight, d.memory, d.wire);
    status_report();
    return ok;
}

/* Zero 1 to 3, offload, sp, pipelines of many kinds; and one rank that sums for all. */
static void check_companies(struct plan serial, int first) {
    const int stride = layouts_want_all() ? 1 : 2;
    struct reference reference;
    enum status status = reference_init(&reference, &serial);
    bool ok = agree_all(status == OK);
    for (int i = first; ok && i < N_COMPANIES; i += stride) {
        struct plan p = layout_in_company(serial, i);
        /* zero 1 offloads only states, and there are none */
        if (plan_optimizer(&serial)->n_states == 0 && plan_number(&p, "zero") == 1)
            plan_set_word(&p, "offload", "none", 0);
        /* refused: see muon_lowered */
        if (p.optimizer == OPTIMIZER_MUON) plan_set_word(&p, "offload", "none", 0);
        if (p.optimizer == OPTIMIZER_MUON) plan_set_word(&p, "optim-sync", "wait", 0);
        ok = is_serial(p, &reference);
    }
    struct plan main_rank = serial;
    main_rank.mesh.dp = comm_world_size();
    main_rank.micro_batch = 2;
    if (comm_world_size() > 1) plan_set_word(&main_rank, "dp-style", "main", 0);
    if (ok) ok = is_serial(main_rank, &reference);
    reference_fini(&reference);
    assert_ok(status);
    assert_true(ok);
}

TEST(test_sgd_with_momentum_is_serial_in_every_company) { check_companies(sgd_plan(0.9), 0); }
TEST(test_sgd_without_momentum_is_serial_in_every_company) { check_companies(sgd_plan(0), 1); }
TEST(test_muon_is_serial_in_every_company) { check_companies(muon_plan(), 0); }

/* ---- bytes ---- */
/* The role optim's bytes per parameter: 4 for each state, and 4 for a master. */
static double optim_bytes(enum optimizer_choice optimizer, double momentum, enum plan_precision precision) {
    struct plan p = parity_plan();
    struct run r;
    int64_t n = 0;
    p.optimizer = (int)optimizer, p.momentum = momentum, p.precision = (int)precision;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    for (int i = 0; i < r.program.n_params; i++) n += type_n(&r.program.params[i].type);
    double bytes = (double)r.memory.bytes[TIER_DEVICE][ROLE_OPTIM] / (double)n;
    run_destroy(&r);
    return bytes;
}

/* Arrays begin at multiples of 256 bytes: with 99 small params that is up to 3 bytes more per state and parameter. */
TEST(test_bytes_are_those_of_the_rows_states) {
    const struct { enum optimizer_choice optimizer; double momentum; int states; } rows[] = {
        {OPTIMIZER_ADAMW, 0.9, 2}, {OPTIMIZER_SGD, 0.9, 1}, {OPTIMIZER_SGD, 0, 0}};
    double one = optim_bytes(OPTIMIZER_SGD, 0.9, PRECISION_FP32);
    assert_true(one >= 4 && one < 7);
    for (int i = 0; i < (int)(sizeof rows / sizeof *rows); i++) {
        double fp32 = optim_bytes(rows[i].optimizer, rows[i].momentum, PRECISION_FP32);
        double bf16 = optim_bytes(rows[i].optimizer, rows[i].momentum, PRECISION_BF16);
        assert_close(fp32, rows[i].states * one, 0.05);
        assert_close(bf16, (rows[i].states + 1) * one, 0.05);
    }
}

TESTS(unit_test(test_sgd_with_momentum_is_serial_in_every_company),
      unit_test(test_sgd_without_momentum_is_serial_in_every_company),
      unit_test(test_muon_is_serial_in_every_company),
      unit_test(test_bytes_are_those_of_the_rows_states))
