/* ranks: 2 4  device: cpu
 *
 * The program after ep's rewrite, on every rank of four layouts; its bill; and the run compared with the serial run. */
#include "driver/recipe.h"
#include "ep/ep.h"
#include "lib/ops/moe/expert_linear.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/comm/reshard.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "zero/zero.h"
#include <string.h>

enum { EXPERTS = 8, LAYERS = 2 };
static const struct layout { int ep, dp, cp, zero; } LAYOUTS[] = {
    {2, .dp = 2, .cp = 1}, {2, .dp = 4, .cp = 1}, {4, .dp = 2, .cp = 2}, {2, .dp = 1, .cp = 2}};
enum { N_LAYOUTS = sizeof LAYOUTS / sizeof *LAYOUTS };

/* In groups of two tokens with one place, a third of the choices is dropped. */
static struct plan plan_of(const struct layout *l) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.layers = LAYERS;
    m->experts = EXPERTS, m->experts_per_token = 2, m->moe_group = 2, m->capacity = 1;
    m->aux_loss = 0.05, m->z_loss = 0.01, m->ffn = 24;
    if (l) p.mesh.dp = l->dp, p.mesh.cp = l->cp, p.mesh.ep = l->ep, zero_options(&p)->stage = l->zero;
    p.micro_batch = 2;
    return p;
}

/* ---- the table ---- */
/* The program of a rank after ep's rewrite only. */
static enum status rewritten(const struct layout *l, int rank, struct plan *plan, struct program *p) {
    *plan = plan_of(l);
    program_init(p);
    TRY(plan_settle(plan, 0));
    plan_place(plan, rank);
    TRY(plan->arch->build(plan, p));
    return technique_ep.rewrite(plan, p);
}

typedef int counter(const struct layout *, int rank, const struct program *);

/* Count errors on all ranks of all layouts. If a rewrite fails, print its message. */
static void check_every_rank(counter *wrong) {
    for (int i = 0; i < N_LAYOUTS; i++)
        for (int rank = 0; rank < LAYOUTS[i].dp * LAYOUTS[i].cp; rank++) {
            struct plan plan;
            struct program p;
            enum status status = rewritten(&LAYOUTS[i], rank, &plan, &p);
            int n = status == OK ? wrong(&LAYOUTS[i], rank, &p) : 0;
            program_fini(&p);
            assert_ok(status);
            if (n) print_message("ep=%d dp=%d cp=%d, rank %d:\n", LAYOUTS[i].ep, LAYOUTS[i].dp, LAYOUTS[i].cp, rank);
            assert_int_equal(n, 0);
        }
}

/* ep groups are neighboring replicas: without tp and pp, rank r has part r mod ep. */
static int wrong_shards(const struct layout *l, int rank, const struct program *p) {
    int wrong = 0, seen = 0;
    for (int i = 0; i < p->n_params; i++) {
        const struct axis *a = &p->params[i].type.shape.axis[0];
        bool expert = strstr(p->params[i].name, ".experts.") != NULL;
        seen += expert;
        if (expert) wrong += a->n != EXPERTS / l->ep || a->first != rank % l->ep * a->n || a->global != EXPERTS;
        else wrong += axis_is_sharded(a);
    }
    return wrong + (seen != 2 * LAYERS);
}

TEST(test_reshards_shard_the_experts) {
    check_every_rank(wrong_shards);
}

static int wrong_cuts(const struct layout *l, int rank, const struct program *p) {
    (void)l, (void)rank;
    int wrong = 0;
    for (int i = 0; i < p->n_params; i++) {
        bool expert = strstr(p->params[i].name, ".experts.") != NULL;
        wrong += shape_cuts(&p->params[i].type.shape) != (expert ? 1u << AXIS_EP : 0);
    }
    return wrong;
}

/* The bits of `cut`. Also: dp's bill sums the experts' gradients over edp, the replicas that share experts, and other
 * gradients over all replicas. */
TEST(test_reshards_say_who_has_cut_the_experts) {
    check_every_rank(wrong_cuts);
    struct plan plan = plan_of(&LAYOUTS[1]);
    struct run r;
    assert_ok(plan_settle(&plan, 0));
    enum status status = run_compile(&r, &train_recipe, &plan, 1, NULL, NULL);
    double experts = 0, sent = r.bill.wire_bytes[AXIS_EDP];
    for (int i = 0; status == OK && i < r.program.n_params; i++) {
        const struct param *w = &r.program.params[i];
        if (strstr(w->name, ".experts.")) experts += (double)type_bytes(&w->grad_type);
    }
    run_destroy(&r);
    assert_ok(status);
    assert_true(experts > 0);
    assert_close(sent, experts, 0);                                  /* 2 S (n-1)/n, n = 2 */
}

/* ---- the steps ---- */
static int writer_of(const struct program *p, int slot) {
    for (int i = 0; i < p->n_steps; i++)
        if (p->steps[i].out[0] == slot) return i;
    return -1;
}

static const struct op *op_at(const struct program *p, int i) {
    return i >= 0 && i < p->n_steps ? p->steps[i].op : NULL;
}

/* Follow the slots backwards from combine: reshard, down, activation, up, reshard, dispatch. */
static int steps_wrong(const struct program *p, int combine, int at[6]) {
    at[0] = writer_of(p, p->steps[combine].in[0]);
    for (int i = 1; i < 6; i++) at[i] = at[i - 1] < 0 ? -1 : writer_of(p, p->steps[at[i - 1]].in[0]);
    int wrong = op_at(p, at[0]) != &op_reshard || op_at(p, at[4]) != &op_reshard;
    wrong += op_at(p, at[1]) != &op_expert_linear || op_at(p, at[3]) != &op_expert_linear;
    wrong += op_at(p, at[5]) != &op_moe_dispatch;
    for (int i = 0; i < 6; i++) wrong += at[i] >= (i ? at[i - 1] : combine);     /* in the order of the data */
    return wrong;
}

static int wrong_places(const struct layout *l, int rank, const struct program *p) {
    (void)l, (void)rank;
    int wrong = 0, combines = 0, reshards = 0, at[6];
    for (int i = 0; i < p->n_steps; i++) {
        reshards += p->steps[i].op == &op_reshard;
        if (p->steps[i].op != &op_moe_combine) continue;
        combines++;
        wrong += steps_wrong(p, i, at) || p->steps[i].n_in != 3;
    }
    return wrong + (combines != LAYERS) + (reshards != 2 * LAYERS);
}

TEST(test_reshards_stand_around_the_experts) {
    check_every_rank(wrong_places);
}

static bool is_type(const struct program *p, int slot, int64_t experts, int64_t senders) {
    const struct shape *s = &p->slots[slot].type.shape;
    return s->n_axes == 4 && s->axis[0].tag == 'E' && s->axis[0].n == experts && s->axis[1].tag == 'P' &&
           s->axis[1].n == senders;
}

/* Shapes after inference: of the rows sent, of the experts' inputs and outputs, of the rows that come back. An error of
 * inference fails the test with its message. */
TEST(test_reshards_exchange_senders_for_experts_and_back) {
    for (int i = 0; i < N_LAYOUTS; i++) {
        struct plan plan = plan_of(&LAYOUTS[i]);
        struct run r;
        int ep = LAYOUTS[i].ep, right = 0;
        assert_ok(plan_settle(&plan, 0));
        enum status status = run_compile(&r, &train_recipe, &plan, ep - 1, NULL, NULL);
        for (int s = 0, at[6]; status == OK && s < r.program.n_steps; s++) {
            const struct program *p = &r.program;
            if (p->steps[s].op != &op_moe_combine || steps_wrong(p, s, at)) continue;
            right += is_type(p, p->steps[at[5]].out[0], EXPERTS, 1) && is_type(p, p->steps[s].in[0], EXPERTS, 1) &&
                     is_type(p, p->steps[at[4]].out[0], EXPERTS / ep, ep) &&
                     is_type(p, p->steps[at[1]].out[0], EXPERTS / ep, ep);
        }
        run_destroy(&r);
        assert_ok(status);
        assert_int_equal(right, LAYERS);
    }
}

/* A microbatch has 2 sequences of 8 tokens; with cp = 2 a rank has half of the tokens. R = tokens / 2 groups, with one
 * place each; fp64. */
TEST(test_reshards_send_what_the_formula_says) {
    for (int i = 0; i < N_LAYOUTS; i++) {
        const struct layout *l = &LAYOUTS[i];
        struct plan plan = plan_of(l);
        struct run r;
        assert_ok(plan_settle(&plan, 0));
        double rows = 2.0 * (double)plan.seq / l->cp / 2, micro = 16.0 / 2 / l->dp;
        enum status status = run_compile(&r, &train_recipe, &plan, 0, NULL, NULL);
        double sent = r.bill.wire_bytes[AXIS_EP];
        run_destroy(&r);
        assert_ok(status);
        assert_close(sent, micro * LAYERS * 4 * (l->ep - 1) / l->ep * EXPERTS * rows * (double)plan.hidden * 8, 1e-6);
    }
}

/* ---- the run ---- */
static void check_runs(const struct layout *layouts, int n) {
    struct reference reference;
    struct plan serial = plan_of(NULL);
    int failed = 0, tried = 0;
    enum status status = reference_init(&reference, &serial);
    for (int i = 0; agree_all(status == OK) && i < n; i++) {
        struct plan p = plan_of(&layouts[i]);
        if (layouts[i].dp * layouts[i].cp != comm_world_size()) continue;
        enum status settled = plan_settle(&p, comm_world_size());
        failed += !layout_is_serial(&p, settled, &reference);
        tried++;
    }
    reference_fini(&reference);
    assert_ok(status);
    assert_true(tried > 0);
    assert_int_equal(failed, 0);
}

TEST(test_reshards_training_equals_serial) {
    const struct layout layouts[] = {{2, .dp = 2, .cp = 1}, {2, .dp = 2, .cp = 1, .zero = 3}, {2, .dp = 4, .cp = 1},
                                     {4, .dp = 4, .cp = 1}, {2, .dp = 4, .cp = 1, .zero = 2}};
    check_runs(layouts, 5);
}

TEST(test_reshards_fold_cp) {
    const struct layout layouts[] = {{2, .dp = 1, .cp = 2}, {2, .dp = 2, .cp = 2}, {4, .dp = 2, .cp = 2}};
    check_runs(layouts, 3);
}

TESTS(unit_test(test_reshards_shard_the_experts), unit_test(test_reshards_say_who_has_cut_the_experts),
      unit_test(test_reshards_stand_around_the_experts),
      unit_test(test_reshards_exchange_senders_for_experts_and_back),
      unit_test(test_reshards_send_what_the_formula_says), unit_test(test_reshards_training_equals_serial),
      unit_test(test_reshards_fold_cp))
