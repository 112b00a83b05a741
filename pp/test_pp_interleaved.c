/* ranks: 1  device: cpu
 *
 * Interleaved: its order, its equality with 1F1B for one chunk, and the programs of virtual stages. Tables only. */
#include "models/gpt/gpt.h"
#include "pp/pp.h"
#include "pp/pp_schedule.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>

/* ---- the order ---- */
/* "a0 a1 B0 ...": chunk a is the first; capitals are backwards. */
static const char *order_of(int p, int v, int stage, int m) {
    static char text[512];
    struct schedule s;
    size_t n = 0;
    pp_schedule_make(&pp_interleaved, &(struct pp_shape){p, v, m, {0}, NULL}, stage, &s);
    for (int i = 0; i < s.n; i++) {
        const struct action *a = &s.actions[i];
        if (!action_is_compute(a->kind)) continue;
        int letter = (a->kind == ACTION_F ? 'a' : 'A') + a->chunk;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%c%d", n ? " " : "", letter, a->microbatch);
    }
    schedule_fini(&s);
    return text;
}

/* By hand: warm-up 2 (p - 1 - stage) + (v - 1) p, then one forward, one backward; microbatches in groups of p. */
TEST(test_interleaved_order_is_the_papers) {
    assert_string_equal(order_of(2, 2, 0, 4), "a0 a1 b0 b1 a2 B0 a3 B1 b2 A0 b3 A1 B2 B3 A2 A3");
    assert_string_equal(order_of(2, 2, 1, 4), "a0 a1 b0 B0 b1 B1 a2 A0 a3 A1 b2 B2 b3 B3 A2 A3");
    assert_string_equal(order_of(2, 3, 1, 2), "a0 a1 b0 b1 c0 C0 c1 C1 B0 B1 A0 A1");
}

static bool same_schedule(const struct schedule *a, const struct schedule *b) {
    bool same = a->n == b->n && a->n_microbatches == b->n_microbatches;
    for (int i = 0; same && i < a->n; i++) {
        const struct action *x = &a->actions[i], *y = &b->actions[i];
        same = x->kind == y->kind && x->chunk == y->chunk && x->microbatch == y->microbatch;
    }
    return same;
}

TEST(test_interleaved_with_one_chunk_is_1f1b) {
    for (int p = 1; p <= 16; p++)
        for (int m = p; m <= 4 * p; m += p)
            for (int stage = 0; stage < p; stage++) {
                struct schedule one, other;
                pp_schedule_make(&pp_interleaved, &(struct pp_shape){p, 1, m, {0}, NULL}, stage, &one);
                pp_schedule_make(&pp_1f1b, &(struct pp_shape){p, 1, m, {0}, NULL}, stage, &other);
                assert_true(same_schedule(&one, &other));
                schedule_fini(&one);
                schedule_fini(&other);
            }
}

TEST(test_interleaved_needs_one_staging_buffer_a_direction) {
    for (int p = 2; p <= 16; p++)
        for (int v = 1; v <= 4; v++)
            for (int m = p; m <= 4 * p; m += p)
                assert_int_equal(pp_send_depth(&pp_interleaved, &(struct pp_shape){p, v, m, {0}, NULL}), 1);
}

/* ---- layers on virtual stages ---- */
static struct plan plan_of(int layers, int pp, int chunks, const char *split) {
    struct plan plan = parity_plan();
    plan.layers = layers;
    plan.mesh.pp = pp;
    pp_options(&plan)->chunks = chunks;
    pp_options(&plan)->schedule = SCHEDULE_INTERLEAVED;
    plan.n_microbatches = 2 * pp;
    snprintf(pp_options(&plan)->split, sizeof pp_options(&plan)->split, "%s", split);
    return plan;
}

static const char *virtual_stages(int layers, int pp, int chunks, const char *split) {
    static char text[64];
    struct plan plan = plan_of(layers, pp, chunks, split);
    int stage_of[16];
    size_t n = 0;
    assert_ok(pp_assign_layers(&plan, stage_of));
    for (int i = 0; i < layers; i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", i ? " " : "", stage_of[i]);
    return text;
}

TEST(test_split_counts_virtual_stages) {
    assert_string_equal(virtual_stages(8, 2, 2, ""), "0 0 1 1 2 2 3 3");
    assert_string_equal(virtual_stages(6, 2, 2, ""), "0 0 1 1 2 3");
    assert_string_equal(virtual_stages(8, 2, 2, "1,3,2,2"), "0 1 1 1 2 2 3 3");
    struct plan two = plan_of(8, 2, 2, "3,5");
    assert_fails(technique_pp.check(&two), E_CONFIG, "pp-split=3,5", "layers=8", "pp=2 x chunks=2 = 4", "give 4");
}

TEST(test_impossible_chunks_are_refused) {
    struct plan other = plan_of(8, 2, 2, ""), alone = plan_of(8, 1, 2, ""), groups = plan_of(8, 4, 2, ""),
                many = plan_of(8, 4, 3, "");
    pp_options(&other)->schedule = SCHEDULE_1F1B;
    groups.n_microbatches = 6;
    assert_fails(technique_pp.check(&other), E_CONFIG, "chunks=2", "use schedule interleaved");
    assert_fails(technique_pp.check(&alone), E_CONFIG, "chunks=2", "pp=1", "pp 2 or more");
    assert_fails(technique_pp.check(&groups), E_CONFIG, "pp=4", "there are 6", "such as 8");
    assert_fails(technique_pp.check(&many), E_CONFIG, "pp=4 x chunks=3 = 12", "layers=8", "chunks 2 or less");
    assert_true(technique_pp.wanted(&alone));   /* otherwise no check would refuse it */
}

/* ---- the programs ---- */
enum { P = 2, V = 4 };
struct stages { struct program whole, at[P]; };

static void build(const struct plan *plan, struct program *p) {
    program_init(p);
    p->place = plan->place;
    assert_ok(gpt_build(plan, p));
    assert_ok(program_infer(p));
}

static void stages_init(struct stages *s) {
    struct plan plan = plan_of(8, P, V, "");
    build(&plan, &s->whole);
    for (int i = 0; i < P; i++) {
        plan.place = mesh_place_of(&plan.mesh, i);
        build(&plan, &s->at[i]);
        assert_ok(technique_pp.rewrite(&plan, &s->at[i]));
        assert_ok(program_infer(&s->at[i]));
    }
}
static void stages_fini(struct stages *s) {
    program_fini(&s->whole);
    for (int i = 0; i < P; i++) program_fini(&s->at[i]);
}

/* Virtual stage after virtual stage, the kept steps are the whole model's, in order. */
TEST(test_chunks_of_all_stages_are_the_whole_model) {
    struct stages s;
    int at = 0;
    stages_init(&s);
    for (int virtual_stage = 0; virtual_stage < P * V; virtual_stage++) {
        const struct program *p = &s.at[virtual_stage % P];
        assert_int_equal(p->n_chunks, V);
        for (int k = 0; k < p->n_steps; k++) {
            if (p->blocks[p->steps[k].block].chunk != virtual_stage / P) continue;
            assert_in_range(at, 0, s.whole.n_steps - 1);
            assert_ptr_equal(p->steps[k].op, s.whole.steps[at].op);
            assert_int_equal(p->steps[k].out[0], s.whole.steps[at].out[0]);
            at++;
        }
    }
    assert_int_equal(at, s.whole.n_steps);
    stages_fini(&s);
}

TEST(test_ends_and_ties_stay_on_the_first_and_last_stage) {
    struct stages s;
    stages_init(&s);
    assert_int_equal(s.at[0].blocks[0].chunk, 0);
    assert_int_equal(s.at[P - 1].blocks[s.whole.n_blocks - 1].chunk, V - 1);
    for (int i = 0; i < s.whole.n_params; i++) {
        bool shared = strcmp(s.whole.params[i].name, "embed.wte") == 0;
        assert_int_equal(s.at[0].params[i].present + s.at[1].params[i].present, shared ? 2 : 1);
        assert_int_equal((s.at[0].params[i].shared == AXIS_TIE) + (s.at[1].params[i].shared == AXIS_TIE),
                         shared ? 2 : 0);
        if (shared) assert_true(s.at[0].params[i].counted && !s.at[1].params[i].counted);
    }
    stages_fini(&s);
}

TESTS(unit_test(test_interleaved_order_is_the_papers), unit_test(test_interleaved_with_one_chunk_is_1f1b),
      unit_test(test_interleaved_needs_one_staging_buffer_a_direction), unit_test(test_split_counts_virtual_stages),
      unit_test(test_impossible_chunks_are_refused), unit_test(test_chunks_of_all_stages_are_the_whole_model),
      unit_test(test_ends_and_ties_stay_on_the_first_and_last_stage))
