/* ranks: 1 */
#include "lib/ops/moe/moe_pack.h"
#include "lib/ops/moe/moe_dispatch.h"
#include "lib/ops/test_op.h"

/* Four tokens in groups of two, with two choices each; four experts with two places. The last token's second choice is
 * dropped. */
enum { T = 4, E = 4, K = 2, S = 2 };
static const int32_t PICKS[T * K] = {2 * S + 0, 0 * S + 0, 2 * S + 1, 3 * S + 0,
                                     1 * S + 0, 2 * S + 0, 2 * S + 1, -1 - 1};
static int parts = 1;

static void make(struct op_case *c, enum dtype dtype) {
    (void)dtype;
    op_case_start(c, &op_moe_pack, 2);
    c->step.moe = (struct moe_rule){.experts = E, .k = K, .group = 2, .places = S, .packed = true};
    c->step.parts = parts;
    op_case_input(c, op_type(INT32, "BTk", 1, T, K));
    op_case_finish(c);
    memcpy(c->in[0].data, PICKS, sizeof PICKS);
}

static void check_packed(int n, const int32_t rows[T * K], const int32_t counts[E]) {
    struct op_case c;
    parts = n;
    make(&c, FP32);
    op_case_run(&c, ROW_FORWARD);
    for (int i = 0; i < T * K; i++) assert_int_equal(((int32_t *)c.out[0].data)[i], rows[i]);
    for (int e = 0; e < E; e++) assert_int_equal(((int32_t *)c.out[1].data)[e], counts[e]);
    op_case_free(&c);
}

/* Experts 0 .. 3 have 1, 1, 4 and 1 rows, of tokens 0; 2; 0, 1, 2 and 3; 1. */
TEST(test_rows_of_an_expert_lie_after_one_another) {
    check_packed(1, (int32_t[]){2, 0, 3, 6, 1, 4, 5, -1}, (int32_t[]){1, 1, 4, 1});
}

/* A token goes to at most two experts of a rank, so a box has 8 rows; with one expert per rank it has 4. */
TEST(test_each_rank_has_a_box_that_suffices) {
    check_packed(2, (int32_t[]){8 + 0, 0, 8 + 1, 8 + 4, 1, 8 + 2, 8 + 3, -1}, (int32_t[]){1, 1, 4, 1});
    check_packed(4, (int32_t[]){8 + 0, 0, 8 + 1, 12 + 0, 4 + 0, 8 + 2, 8 + 3, -1}, (int32_t[]){1, 1, 4, 1});
}

/* Many choices, and more experts than a block has warps; five experts get no choice. */
static void make_many(struct op_case *c, enum dtype dtype) {
    enum { TOKENS = 150, CHOICES = 3, EXPERTS = 40 };
    (void)dtype;
    op_case_start(c, &op_moe_pack, 2);
    c->step.moe = (struct moe_rule){.experts = EXPERTS, .k = CHOICES, .group = 10, .places = 7, .packed = true};
    c->step.parts = 4;
    op_case_input(c, op_type(INT32, "BTk", 3, TOKENS / 3, CHOICES));
    op_case_finish(c);
    int32_t *picks = c->in[0].data;
    for (int i = 0; i < TOKENS * CHOICES; i++) {
        int e = (i / CHOICES * 7 + i % CHOICES) % (EXPERTS - 5);
        picks[i] = i % 11 ? e * 7 + i % 7 : -1 - e;
    }
}

TEST(test_moe_pack_equals_its_sibling) {
    struct op_case c, cpu;
    make_many(&c, INT32);
    make_many(&cpu, INT32);
    op_case_run(&c, ROW_FORWARD);
    op_case_run_on(&cpu, ROW_FORWARD, device_cpu());
    for (int i = 0; i < 2; i++)
        assert_memory_equal(c.out[i].data, cpu.out[i].data, (size_t)type_bytes(cpu.out[i].type));
    op_case_free(&cpu);
    op_case_free(&c);
}

/* Dispatch and combine by packed rows give each token times the number of its choices that are not dropped. */
TEST(test_dispatch_and_combine_find_packed_rows) {
    struct op_case c, sent, back;
    for (parts = 1; parts <= 4; parts *= 2) {
        make(&c, FP64);
        op_case_run(&c, ROW_FORWARD);
        op_case_start(&sent, &op_moe_dispatch, 1);
        sent.step.moe = c.step.moe, sent.step.parts = parts;
        op_case_input(&sent, op_type(FP64, "BTC", 1, T, 3));
        op_case_input(&sent, *c.out[0].type);
        op_case_finish(&sent);
        memcpy(sent.in[1].data, c.out[0].data, sizeof PICKS);
        op_case_run(&sent, ROW_FORWARD);
        op_case_start(&back, &op_moe_combine, 1);
        back.step.moe = c.step.moe, back.step.parts = parts;
        op_case_input(&back, *sent.out[0].type);
        op_case_input(&back, *c.out[0].type);
        op_case_input(&back, op_type(FP64, "BTk", 1, T, K));
        op_case_finish(&back);
        memcpy(back.in[0].data, sent.out[0].data, (size_t)type_bytes(sent.out[0].type));
        memcpy(back.in[1].data, c.out[0].data, sizeof PICKS);
        for (int i = 0; i < T * K; i++) ((double *)back.in[2].data)[i] = 1;
        op_case_run(&back, ROW_FORWARD);
        for (int i = 0; i < T * 3; i++)
            assert_close(((double *)back.out[0].data)[i], (i / 3 == T - 1 ? 1 : 2) * ((double *)sent.in[0].data)[i], 0);
        op_case_free(&back);
        op_case_free(&sent);
        op_case_free(&c);
    }
}

TEST(test_moe_pack_refuses) {
    struct type picks = op_type(INT32, "BTk", 1, T, K), out[MAX_OUT];
    struct step step = {.op = &op_moe_pack, .n_in = 1, .n_out = 2, .parts = 3, .moe = {.experts = E, .k = K}};
    struct call call = {.step = &step, .in = {{NULL, &picks}}};
    assert_fails(op_moe_pack.shape(&call, out), E_CONFIG, "moe_pack", "do not divide the experts");
}

TESTS(unit_test(test_rows_of_an_expert_lie_after_one_another), unit_test(test_each_rank_has_a_box_that_suffices),
      unit_test(test_moe_pack_equals_its_sibling),
      unit_test(test_dispatch_and_combine_find_packed_rows), unit_test(test_moe_pack_refuses))
