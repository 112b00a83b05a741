/* ranks: 1  device: cpu
 *
 * The program after pp's rewrite, for every stage. The rewrite is pure, so one process checks all stages. */
#include "lib/run/combine.h"
#include "models/gpt/gpt.h"
#include "pp/pp.h"
#include "pp/pp_schedule.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <string.h>

enum { MAX_STAGES = 8 };

/* Eight layers over p stages, or as the split says. */
struct stages { struct plan plan; int p; struct program whole, at[MAX_STAGES]; };

static struct plan plan_at(const struct stages *s, int stage) {
    struct plan plan = s->plan;
    plan.place = mesh_place_of(&plan.mesh, stage);
    return plan;
}

static void build(const struct plan *plan, struct program *p) {
    program_init(p);
    p->place = plan->place;
    assert_ok(gpt_build(plan, p));
    assert_ok(program_infer(p));
}

static void stages_init(struct stages *s, int p, const char *split) {
    *s = (struct stages){.plan = parity_plan(), .p = p};
    s->plan.mesh.pp = p;
    snprintf(pp_options(&s->plan)->split, sizeof pp_options(&s->plan)->split, "%s", split);
    build(&s->plan, &s->whole);
    for (int i = 0; i < p; i++) {
        struct plan here = plan_at(s, i);
        build(&here, &s->at[i]);
        assert_ok(technique_pp.rewrite(&here, &s->at[i]));
        assert_ok(program_infer(&s->at[i]));
    }
}
static void stages_fini(struct stages *s) {
    program_fini(&s->whole);
    for (int i = 0; i < s->p; i++) program_fini(&s->at[i]);
}

static void each_split(void (*check)(const struct stages *)) {
    static const struct { int p; const char *split; } cases[] = {{1, ""}, {2, ""}, {3, ""}, {4, ""}, {8, ""},
                                                                 {2, "3,5"}, {4, "1,3,2,2"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct stages s;
        stages_init(&s, cases[i].p, cases[i].split);
        check(&s);
        stages_fini(&s);
    }
}

/* ---- steps ---- */
/* A step is identified by its op, its output and its block; operands have the same indices, as the tables are whole. */
static bool rule_same(const struct step *a, const struct step *b) {
    const struct dropout_rule *x = step_dropout(a), *y = step_dropout(b);
    return !x || (x->stream == y->stream && x->p == y->p);
}
static bool step_same(const struct step *a, const struct step *b) {
    bool same = a->op == b->op && a->block == b->block && rule_same(a, b) && a->n_in == b->n_in &&
                a->n_out == b->n_out && a->n_weight == b->n_weight;
    for (int i = 0; same && i < a->n_in; i++) same = a->in[i] == b->in[i];
    for (int i = 0; same && i < a->n_out; i++) same = a->out[i] == b->out[i];
    for (int i = 0; same && i < a->n_weight; i++) same = a->weight[i] == b->weight[i];
    return same;
}

/* The stages' steps, one stage after the other, are the whole model's: none missing, none twice, none out of order. */
static void check_steps(const struct stages *s) {
    int at = 0;
    for (int i = 0; i < s->p; i++)
        for (int k = 0; k < s->at[i].n_steps; k++, at++) {
            assert_in_range(at, 0, s->whole.n_steps - 1);
            assert_true(step_same(&s->at[i].steps[k], &s->whole.steps[at]));
        }
    assert_int_equal(at, s->whole.n_steps);
}
TEST(test_pp_rewrite_partitions_the_steps) {
    each_split(check_steps);
}

/* A block is on the stage that has its steps, and on no other; embedding first, head last. */
static void check_blocks(const struct stages *s) {
    for (int b = 0; b < s->whole.n_blocks; b++) {
        int owners = 0;
        for (int i = 0; i < s->p; i++) {
            int n_steps = 0;
            for (int k = 0; k < s->at[i].n_steps; k++) n_steps += s->at[i].steps[k].block == b;
            assert_int_equal(s->at[i].blocks[b].chunk, n_steps ? 0 : -1);
            owners += n_steps > 0;
        }
        assert_int_equal(owners, 1);
    }
    assert_int_equal(s->at[0].blocks[0].chunk, 0);
    assert_int_equal(s->at[s->p - 1].blocks[s->whole.n_blocks - 1].chunk, 0);
}
TEST(test_pp_rewrite_gives_each_block_to_one_stage) {
    each_split(check_blocks);
}

TEST(test_pp_rewrite_cuts_where_it_was_told) {
    static const int n_layers[] = {1, 3, 2, 2};
    struct stages s;
    stages_init(&s, 4, "1,3,2,2");
    for (int i = 0; i < 4; i++) {
        int n = 0;
        for (int b = 0; b < s.whole.n_blocks; b++) n += s.at[i].blocks[b].is_layer && s.at[i].blocks[b].chunk == 0;
        assert_int_equal(n, n_layers[i]);
    }
    stages_fini(&s);
}

/* ---- params ---- */
static bool is_wte(const struct param *w) { return strcmp(w->name, "embed.wte") == 0; }

/* Every param is on one stage, except the tied embedding, on the first and the last. Only the embedding is marked. */
static void check_params(const struct stages *s) {
    for (int k = 0; k < s->whole.n_params; k++) {
        int held = 0, counted = 0, tied = 0;
        for (int i = 0; i < s->p; i++) {
            const struct param *w = &s->at[i].params[k];
            bool at_an_end = i == 0 || i == s->p - 1;
            held += w->present;
            counted += w->present && w->counted;
            tied += w->shared == AXIS_TIE;
            if (is_wte(w)) assert_int_equal(w->present, at_an_end);
            if (is_wte(w) && s->p > 1) assert_int_equal(w->shared == AXIS_TIE, at_an_end);
        }
        bool shared = is_wte(&s->whole.params[k]) && s->p > 1;
        assert_int_equal(held, shared ? 2 : 1);
        assert_int_equal(tied, shared ? 2 : 0);
        assert_int_equal(counted, 1);
    }
}
TEST(test_pp_rewrite_ties_the_embedding_and_counts_it_once) {
    each_split(check_params);
}

TEST(test_pp_bills_the_tied_gradient_at_both_ends) {
    struct stages s;
    stages_init(&s, 4, "");
    for (int i = 0; i < 4; i++) {
        struct bill bill = {0};
        combine_bill(&s.at[i], &bill);
        /* all_reduce over two ranks: 2 S / 2 */
        assert_close(bill.wire_bytes[AXIS_TIE], i == 0 || i == 3 ? 131 * 16 * 8 : 0, 0);
        bill_fini(&bill);
    }
    stages_fini(&s);
}

/* ---- the technique's schedule ---- */
TEST(test_pp_schedule_of_a_plan_is_this_stages) {
    struct stages s = {.plan = parity_plan(), .p = 4};
    s.plan.mesh.pp = 4;
    s.plan.n_microbatches = 6;
    for (int i = 0; i < 4; i++) {
        struct schedule made, expected;
        struct plan here = plan_at(&s, i);
        assert_ok(technique_pp.schedule(&here, &made));
        pp_schedule_make(&pp_1f1b, &(struct pp_shape){4, 1, 6, {0}, NULL}, i, &expected);
        assert_int_equal(made.n, expected.n);
        assert_memory_equal(made.actions, expected.actions, (size_t)made.n * sizeof *made.actions);
        assert_int_equal(made.send_depth, pp_send_depth(&pp_1f1b, &(struct pp_shape){4, 1, 6, {0}, NULL}));
        schedule_fini(&made);
        schedule_fini(&expected);
    }
}

/* A fused op for head and loss cannot delay W. So schedules that split W use two ops, unless the plan sets the fused
 * one. */
TEST(test_split_schedules_take_head_and_loss_apart) {
    for (int k = 0; k < N_SCHEDULES; k++) {
        struct plan open = parity_plan(), told;
        open.mesh.pp = 2, open.micro_batch = 2, open.loss_chunk = -1;
        pp_options(&open)->schedule = k;
        told = open;
        told.loss_chunk = 64;
        assert_ok(plan_settle(&open, 2));
        assert_ok(plan_settle(&told, 2));
        assert_true((open.loss_chunk == 0) == pp_schedule_at(k)->split_weight);
        assert_int_equal(told.loss_chunk, 64);
    }
}

/* GPipe without a pipeline: all forwards, all backwards, no stage to send to. */
TEST(test_pp_schedule_is_legal_with_one_stage) {
    struct plan plan = parity_plan();
    struct schedule s;
    pp_options(&plan)->schedule = SCHEDULE_GPIPE;
    plan.n_microbatches = 3;
    plan.place = mesh_place_of(&plan.mesh, 0);
    assert_ok(technique_pp.schedule(&plan, &s));
    assert_int_equal(s.n, 6);
    for (int i = 0; i < 6; i++) assert_int_equal(s.actions[i].kind, i < 3 ? ACTION_F : ACTION_B);
    schedule_fini(&s);
}

TESTS(unit_test(test_pp_rewrite_partitions_the_steps), unit_test(test_pp_rewrite_gives_each_block_to_one_stage),
      unit_test(test_pp_rewrite_cuts_where_it_was_told),
      unit_test(test_pp_rewrite_ties_the_embedding_and_counts_it_once),
      unit_test(test_pp_bills_the_tied_gradient_at_both_ends), unit_test(test_pp_schedule_of_a_plan_is_this_stages),
      unit_test(test_pp_schedule_is_legal_with_one_stage),
      unit_test(test_split_schedules_take_head_and_loss_apart))
