/* ranks: 1  device: cpu */
#include "models/gpt/gpt.h"
#include "driver/recipe.h"
#include "lib/ops/attention/attention.h"
#include "lib/run/run.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/* ---- plans from the command line ---- */
/* Options as on the command line, for one rank; vocab 256 from the data unless a stronger source sets it. */
static enum status plan_of(struct plan *p, int argc, char *const *argv) {
    struct options *o;
    TRY(recipe_options_create(NULL, p, &o));
    enum status status = options_parse(o, argc, argv);
    if (status == OK) status = recipe_preset(p, o);
    if (status == OK) status = options_set(o, "vocab", "256", FROM_DATA);
    options_destroy(&o);
    TRY(status);
    return plan_settle(p, 1);
}
#define PLAN(p, ...) plan_of((p), sizeof((char *[]){__VA_ARGS__}) / sizeof(char *), (char *[]){__VA_ARGS__})

/* ---- number of parameters ---- */
static int64_t count_by_program(const struct plan *plan) {
    struct program p;
    program_init(&p);
    int64_t n = gpt_build(plan, &p) == OK ? program_n_params(&p) : -1;
    program_fini(&p);
    return n;
}

/* Counts of OpenAI's checkpoints: the tied head once, biases and layernorms included. */
TEST(test_gpt2_sizes_have_exactly_the_published_parameters) {
    const struct { char *name; int64_t n; } sizes[] = {{"gpt2-124m", 124439808}, {"gpt2-350m", 354823168},
                                                       {"gpt2-774m", 774030080}, {"gpt2-1558m", 1557611200}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct plan p;
        assert_ok(PLAN(&p, "--model", sizes[i].name));
        assert_true(gpt_n_params(&p) == sizes[i].n);
        assert_true(count_by_program(&p) == sizes[i].n);
    }
}

/* Brown et al. 2020, table 2.1, gives two or three digits; its "13B" has hidden 5140, no multiple of 40 heads. */
TEST(test_gpt3_sizes_are_what_their_names_say) {
    const struct { char *name; double n; } sizes[] = {{"gpt3-125m", 125e6}, {"gpt3-350m", 350e6}, {"gpt3-760m", 760e6},
                                                      {"gpt3-1.3b", 1.3e9}, {"gpt3-2.7b", 2.7e9}, {"gpt3-6.7b", 6.7e9},
                                                      {"gpt3-13b", 13e9},   {"gpt3-175b", 175e9},
                                                      {"mt-nlg-530b", 530e9}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct plan p;
        assert_ok(PLAN(&p, "--model", sizes[i].name));
        assert_close((double)gpt_n_params(&p) / sizes[i].n, 1, 0.03);
        assert_true(count_by_program(&p) == gpt_n_params(&p));
        assert_int_equal(p.seq, 2048);
    }
}

/* ---- how many flops ----
 * The MFU formula and the bill count the same flops, so they agree exactly. N: parameters in matrix products; a token
 * costs
 *   forward          2 N + 4 L C T     a multiply-add for each weight; q k^T and p v over the full T x T square
 *   backward input   2 N + 8 L C T     dy W; four products for dq, dk, dv and dp. p is recomputed from lse, which is
 *                                      recomputation, and does not count
 *   backward weight  2 N               dy^T x
 * The causal half that kernels skip counts (as in all MFU formulas); layernorm, gelu and other small steps do not. A
 * head with its loss by chunks does all its three products in backward input. */
static void check_flops(const struct plan *plan) {
    struct run r;
    assert_ok(run_compile(&r, &train_recipe, plan, 0, NULL, NULL));
    const double *flops = r.bill.flops;
    double tokens = (double)(plan->global_batch * plan->seq), n = 2.0 * (double)gpt_matmul_params(plan);
    double square = (double)(plan->layers * plan->hidden * plan->seq);
    double moved = plan->loss_chunk ? 2.0 * (double)(plan->vocab * plan->hidden) : 0;
    assert_close(flops[ROW_FORWARD], tokens * (n - moved + 4 * square), 0);
    assert_close(flops[ROW_BACKWARD_INPUT], tokens * (n + 2 * moved + 8 * square), 0);
    assert_close(flops[ROW_BACKWARD_WEIGHT], tokens * (n - moved), 0);
    assert_close(flops[ROW_REPLAY], 0, 0);
    double all = flops[ROW_FORWARD] + flops[ROW_BACKWARD_INPUT] + flops[ROW_BACKWARD_WEIGHT];
    assert_close(all, tokens * gpt_flops_per_token(plan), 0);
    run_destroy(&r);
}

TEST(test_formula_counts_the_flops_of_the_bill) {
    struct plan p;
    assert_ok(PLAN(&p, "--model", "tiny"));
    check_flops(&p);
    assert_ok(PLAN(&p, "--model", "tiny", "--micro-batch", "2", "--attention", "materialised"));
    check_flops(&p);
    assert_ok(PLAN(&p, "--model", "tiny", "--loss-chunk", "0"));
    check_flops(&p);
    assert_ok(PLAN(&p, "--model", "gpt2-124m", "--global-batch", "4", "--micro-batch", "1"));
    check_flops(&p);
}

/* tp and pp divide the work and add none (tp divides this vocabulary). */
TEST(test_flops_of_all_ranks_add_up_to_the_formula) {
    struct plan p;
    double sum = 0;
    assert_ok(PLAN(&p, "--model", "tiny"));
    p.mesh.tp = p.mesh.pp = 2;
    p.micro_batch = 0;
    assert_ok(plan_settle(&p, 4));
    for (int rank = 0; rank < 4; rank++) {
        struct run r;
        assert_ok(run_compile(&r, &train_recipe, &p, rank, NULL, NULL));
        for (enum row_kind k = ROW_FORWARD; k <= ROW_BACKWARD_WEIGHT; k++) sum += r.bill.flops[k];
        run_destroy(&r);
    }
    assert_close(sum, (double)(p.global_batch * p.seq) * gpt_flops_per_token(&p), 0);
}

/* 6 N + 12 L C T of the smallest GPT-2, by hand: N = 12 x 12 x 768^2 + 50257 x 768. */
TEST(test_formula_by_hand) {
    struct plan p;
    assert_ok(PLAN(&p, "--model", "gpt2-124m"));
    assert_true(gpt_matmul_params(&p) == 84934656 + 38597376);
    assert_close(gpt_flops_per_token(&p), 6.0 * 123532032 + 12.0 * 12 * 768 * 1024, 0);
}

/* ---- presets ---- */
TEST(test_unknown_preset_lists_the_known) {
    struct plan p;
    assert_fails(PLAN(&p, "--model", "gpt2-125m"), E_CONFIG, "model=gpt2-125m", "tiny, gpt2-124m", "gpt2-1558m",
                 "gpt3-175b");
}

TEST(test_tiny_is_as_documented_and_takes_the_vocabulary_of_its_data) {
    struct plan p;
    assert_ok(PLAN(&p, "--model", "tiny"));
    assert_true(p.layers == 4 && p.hidden == 128 && p.heads == 4 && p.seq == 64 && p.vocab == 256);
}

TEST(test_explicit_options_stand_above_the_preset) {
    struct plan p;
    assert_ok(PLAN(&p, "--layers", "3", "--vocab", "999", "--model", "gpt2-124m"));
    assert_true(p.layers == 3 && p.vocab == 999);
    assert_true(p.hidden == 768 && p.heads == 12 && p.seq == 1024);
}

TEST(test_a_file_stands_above_the_preset_too) {
    struct plan p;
    char *path = (char *)test_path("model.ini");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs("model = gpt2-124m\nheads = 6\n", f);
    fclose(f);
    assert_ok(PLAN(&p, "--config", path));
    assert_true(p.heads == 6 && p.layers == 12 && p.vocab == 50257);
}

/* ---- the list of steps ---- */
static struct program program_of_tiny(struct plan *plan) {
    struct program p;
    program_init(&p);
    assert_ok(PLAN(plan, "--model", "tiny", "--dropout", "0.25"));
    assert_ok(gpt_build(plan, &p));
    assert_ok(program_infer(&p));
    return p;
}

static int param_named(const struct program *p, const char *name) {
    for (int i = 0; i < p->n_params; i++)
        if (!strcmp(p->params[i].name, name)) return i;
    fail_msg("no param is called %s", name);
    return -1;
}

TEST(test_embedding_and_head_are_tied_by_one_param) {
    struct plan plan;
    struct program p = program_of_tiny(&plan);
    int uses = 0, wte = param_named(&p, "embed.wte");
    for (int i = 0; i < p.n_steps; i++)
        for (int k = 0; k < p.steps[i].n_weight; k++) uses += p.steps[i].weight[k] == wte;
    assert_int_equal(uses, 2);
    assert_int_equal(p.steps[0].weight[0], wte);
    const struct step *last = &p.steps[p.n_steps - 1];               /* the loss, with the logits or after them */
    assert_int_equal(last->n_weight ? last->weight[0] : last[-1].weight[0], wte);
    program_fini(&p);
}

TEST(test_an_untied_head_has_a_matrix_of_its_own) {
    struct plan plan;
    struct program tied = program_of_tiny(&plan), p;
    model_options(&plan)->tie = 0;
    program_init(&p);
    assert_ok(gpt_build(&plan, &p));
    assert_ok(program_infer(&p));
    const struct param *head = &p.params[param_named(&p, "head.w")];
    assert_int_equal(type_n(&head->type), plan.vocab * plan.hidden);
    assert_true(head->init_std == 0.02 && head->decay);
    assert_int_equal(program_n_params(&p), gpt_n_params(&plan));
    assert_int_equal(program_n_params(&p) - program_n_params(&tied), plan.vocab * plan.hidden);
    program_fini(&p);
    program_fini(&tied);
}

/* GPT-2's four dropout sites have different streams: two sites with the same mask would be correlated. */
TEST(test_dropout_sites_draw_from_streams_of_their_own) {
    struct plan plan;
    struct program p = program_of_tiny(&plan);
    int sites = 0;
    for (int i = 0; i < p.n_steps; i++) {
        const struct dropout_rule *site = step_dropout(&p.steps[i]);
        if (!site) continue;
        assert_close(site->p, 0.25, 0);
        sites++;
        for (int j = 0; j < i; j++) {
            const struct dropout_rule *other = step_dropout(&p.steps[j]);
            assert_true(!other || other->stream != site->stream);
        }
    }
    assert_int_equal(sites, 1 + 3 * (int)plan.layers);               /* embedding; per layer attention, two residuals */
    program_fini(&p);
}

/* GPT-2 draws with 0.02, and with 0.02 / sqrt(2 L) where a layer adds to the residual stream; gains 1, biases 0. */
TEST(test_initial_values_follow_gpt2) {
    struct plan plan;
    struct program p = program_of_tiny(&plan);
    const char *const scaled[] = {"h3.proj.w", "h0.fc2.w"},
    *const plain[] = {"embed.wte", "embed.wpe", "h1.qkv.w", "h2.fc.w"};
    for (int i = 0; i < 2; i++) assert_close(p.params[param_named(&p, scaled[i])].init_std, 0.02 / sqrt(2 * 4), 1e-18);
    for (int i = 0; i < 4; i++) assert_close(p.params[param_named(&p, plain[i])].init_std, 0.02, 0);
    for (int i = 0; i < p.n_params; i++) {
        const struct param *w = &p.params[i];
        const char *end = w->name + strlen(w->name) - 2;
        bool gain = !strcmp(end, ".g"), bias = !strcmp(end, ".b");
        assert_close(w->init_constant, gain ? 1 : 0, 0);
        assert_int_equal(w->init_std > 0, !gain && !bias);
        assert_int_equal(w->decay, !gain && !bias);
    }
    program_fini(&p);
}

/* ---- the activations that a layer keeps for its backward pass ---- */
static bool is_kept(const struct chunk *k, const char *name) {
    for (int v = 0; v < k->n_values; v++)
        if (!strcmp(k->values[v].name, name) && k->values[v].birth.tape == TAPE_F)
            return k->values[v].death.tape == TAPE_B;
    fail_msg("the forward pass makes no %s", name);
    return false;
}

/* Backward reads qkv, fc and the others of `kept`. proj and fc2 are only added to the residual stream: the gradient of
 * the sum needs neither, and the sum overwrites them. */
TEST(test_a_layer_keeps_what_backward_reads_and_nothing_else) {
    const char *const kept[] = {"ln1", "ln1.stat", "qkv", "att", "att.stat", "res1", "ln2", "ln2.stat", "fc", "gelu",
                                "res2"};
    const char *const dropped[] = {"proj", "fc2"};
    struct plan plan;
    struct run r;
    char name[32];
    assert_ok(PLAN(&plan, "--model", "tiny"));
    assert_ok(run_compile(&r, &train_recipe, &plan, 0, NULL, NULL));
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        snprintf(name, sizeof name, "h1.%s", kept[i]);
        if (!is_kept(&r.chunks[0], name)) fail_msg("%s is not kept", name);
    }
    for (size_t i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "h1.%s", dropped[i]);
        if (is_kept(&r.chunks[0], name)) fail_msg("%s is kept, and no step reads it", name);
    }
    assert_false(is_kept(&r.chunks[0], "embed.tok"));
    run_destroy(&r);
}

/* Rows of logits start at multiples of 16 bytes, which fast products need: 50257 is odd, 50304 = 64 x 786. */
TEST(test_cuda_pads_the_vocabulary) {
    for (int on = PLAN_DEVICE_CPU; on <= PLAN_DEVICE_CUDA; on++) {
        struct program p;
        struct plan plan;
        assert_ok(PLAN(&plan, "--model", "gpt2-124m"));
        plan.device = on;
        program_init(&p);
        assert_ok(gpt_build(&plan, &p));
        const struct axis *v = &p.params[0].type.shape.axis[0];
        assert_true(v->tag == 'V' && v->n == (on == PLAN_DEVICE_CUDA ? 50304 : 50257) && v->global == 50257);
        assert_true(program_n_params(&p) == 124439808 && gpt_n_params(&plan) == 124439808);
        program_fini(&p);
    }
}

TESTS(unit_test(test_gpt2_sizes_have_exactly_the_published_parameters), unit_test(test_cuda_pads_the_vocabulary),
      unit_test(test_gpt3_sizes_are_what_their_names_say), unit_test(test_formula_counts_the_flops_of_the_bill),
      unit_test(test_flops_of_all_ranks_add_up_to_the_formula), unit_test(test_formula_by_hand),
      unit_test(test_unknown_preset_lists_the_known),
      unit_test(test_tiny_is_as_documented_and_takes_the_vocabulary_of_its_data),
      unit_test(test_explicit_options_stand_above_the_preset), unit_test(test_a_file_stands_above_the_preset_too),
      unit_test(test_embedding_and_head_are_tied_by_one_param),
      unit_test(test_an_untied_head_has_a_matrix_of_its_own),
      unit_test(test_dropout_sites_draw_from_streams_of_their_own), unit_test(test_initial_values_follow_gpt2),
      unit_test(test_a_layer_keeps_what_backward_reads_and_nothing_else))
