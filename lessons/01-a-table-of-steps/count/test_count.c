/* ranks: 1  device: cpu */
/* Counts compared with published numbers, and with the plan of run_compile for the same shapes. */
#include "lessons/01-a-table-of-steps/count/count.h"
#include "driver/recipe.h"
#include "models/gpt/gpt.h"
#include "lib/cost/activations.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <inttypes.h>

static const struct gpt_shape shapes[] = {{4, 128, 4, 64, 256}, {3, 96, 6, 40, 64}, {2, 320, 5, 16, 512},
                                          {12, 768, 12, 1024, 50304}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes, MICRO_BATCH = 3, MAX_BLOCKS = 16 };

static struct plan plan_of(const struct gpt_shape *m) {
    struct plan p = parity_plan();
    p.layers = m->layers, p.hidden = m->hidden, p.heads = m->heads, p.seq = m->seq, p.vocab = m->vocab;
    p.micro_batch = MICRO_BATCH, p.global_batch = 2 * MICRO_BATCH;
    p.precision = PRECISION_FP32;
    return p;
}

/* The plan: bytes by role, and bytes that the first layer saves. */
struct planned { int64_t bytes[N_ROLES], layer; };

static struct planned planned_of(struct plan p) {
    struct run r;
    struct activations blocks[MAX_BLOCKS] = {{0, 0}};
    struct planned planned = {.layer = -1};
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    enum status status = activations_count(&r.program, &r.chunks[0], blocks);
    for (int i = 0; i < r.program.n_blocks && planned.layer < 0; i++)
        if (r.program.blocks[i].is_layer) planned.layer = blocks[i].bytes;
    for (int role = 0; role < N_ROLES; role++) planned.bytes[role] = r.memory.bytes[TIER_DEVICE][role];
    run_destroy(&r);
    assert_ok(status);
    return planned;
}

static void expect_of(const struct gpt_shape *m, const char *what, int64_t bytes, int64_t right) {
    if (bytes != right)
        fail_msg("%s of a GPT with %d layers, %d channels, %d heads, %d tokens and a vocabulary of %d: you say %" PRId64
                 ", right is %" PRId64, what, (int)m->layers, (int)m->hidden, (int)m->heads, (int)m->seq, (int)m->vocab,
                 bytes, right);
}

static int64_t parameters(struct gpt_shape m) {
    int64_t n = -1;
    assert_ok(count_parameters(&m, &n));
    return n;
}

/* GPT-2 small and XL, counted from the released weights; GPT-3, from table 2.1 of Brown et al. 2020 with GPT-2's
 * vocabulary. */
TEST(test_parameters_of_known_models) {
    expect_number("parameters of GPT-2 small", parameters((struct gpt_shape){12, 768, 12, 1024, 50257}), 124439808);
    expect_number("parameters of GPT-2 XL", parameters((struct gpt_shape){48, 1600, 25, 1024, 50257}), 1557611200);
    expect_number("parameters of GPT-3", parameters((struct gpt_shape){96, 12288, 96, 2048, 50257}), 174604259328);
    for (int i = 0; i < N_SHAPES; i++) {
        struct plan p = plan_of(&shapes[i]);
        expect_of(&shapes[i], "parameters", parameters(shapes[i]), gpt_n_params(&p));
    }
    expect_number("parameters with every size 1", parameters((struct gpt_shape){1, 1, 1, 1, 1}), 2 + 25 + 2);
}

TEST(test_flops_are_those_of_the_mfu) {
    for (int i = 0; i < N_SHAPES; i++) {
        struct plan p = plan_of(&shapes[i]);
        double flops = -1, wanted = gpt_flops_per_token(&p);
        assert_ok(count_flops_per_token(&shapes[i], &flops));
        assert_close(flops, wanted, 1e-12 * wanted);
    }
}

/* Shapes in which every tensor is a whole number of cache lines, so that nothing is padded. */
TEST(test_static_bytes_are_planned) {
    static const char *const names[2][3] = {
        {"bytes of parameters in fp32", "bytes of gradients in fp32", "bytes of the optimizer in fp32"},
        {"bytes of parameters, mixed", "bytes of gradients, mixed", "bytes of the optimizer, mixed"}};
    for (int i = 0; i < N_SHAPES; i++)
        for (int mixed = 0; mixed <= 1; mixed++) {
            struct plan p = plan_of(&shapes[i]);
            struct static_bytes s = {-1, -1, -1};
            p.precision = mixed ? PRECISION_BF16 : PRECISION_FP32;
            struct planned planned = planned_of(p);
            assert_ok(count_static_bytes(&shapes[i], mixed, &s));
            const char *const *what = names[mixed];
            expect_of(&shapes[i], what[0], s.param, planned.bytes[ROLE_PARAM]);
            expect_of(&shapes[i], what[1], s.grad, planned.bytes[ROLE_GRAD]);
            expect_of(&shapes[i], what[2], s.optim, planned.bytes[ROLE_OPTIM]);
        }
}

static void assert_layer(const struct gpt_shape *m, bool stored, enum plan_precision precision, int64_t element_bytes) {
    struct plan p = plan_of(m);
    struct model_options *model = model_options(&p);
    int64_t bytes = -1;
    p.precision = precision;
    model->attention = stored ? ATTENTION_MATERIALISED : ATTENTION_BLOCKED;
    model->dropout_masks = stored ? MASKS_STORE : MASKS_REDRAW;
    model->dropout = 0.1;
    struct planned planned = planned_of(p);
    assert_ok(count_layer_activations(m, MICRO_BATCH, element_bytes, stored, &bytes));
    expect_of(m, stored ? "bytes that a layer saves, attention stored" : "bytes that a layer saves", bytes,
              planned.layer);
}

TEST(test_a_layer_saves_what_is_planned) {
    for (int i = 0; i < N_SHAPES; i++) {
        assert_layer(&shapes[i], false, PRECISION_FP32, 4);
        assert_layer(&shapes[i], false, PRECISION_BF16, 2);
    }
}

/* GPT-3: a = 96 heads, s = 2048 tokens, h = 12288 channels, so 34 + 5as/h = 114 bytes for each of s b h. */
TEST(test_stored_attention_is_the_papers) {
    for (int i = 0; i < N_SHAPES; i++) {
        assert_layer(&shapes[i], true, PRECISION_BF16, 2);
        assert_layer(&shapes[i], true, PRECISION_FP32, 4);
    }
    int64_t bytes = -1;
    assert_ok(count_layer_activations(&(struct gpt_shape){96, 12288, 96, 2048, 50257}, 1, 2, true, &bytes));
    expect_number("bytes that a layer of GPT-3 saves, attention stored", bytes, 114LL * 2048 * 12288);
}

TESTS(unit_test(test_parameters_of_known_models), unit_test(test_flops_are_those_of_the_mfu),
      unit_test(test_static_bytes_are_planned), unit_test(test_a_layer_saves_what_is_planned),
      unit_test(test_stored_attention_is_the_papers))
