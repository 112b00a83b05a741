/* ranks: 1 2 4  more: 8  device: cpu  threads: 1
 *
 * Llama has the published sizes, costs what the formula says, and equals its serial run in every layout. */
#include "models/llama/llama.h"
#include "cp/cp.h"
#include "models/decode/decode.h"
#include "driver/recipe.h"
#include "lib/ops/activation.h"
#include "lib/ops/moe/moe_route.h"
#include "mixed_precision/fp8.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include "tp/tp.h"
#include "tp/tp_region.h"
#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */
static enum status preset(struct plan *p, const char *name) {
    struct options *o;
    TRY(recipe_options_create(NULL, p, &o));
    snprintf(p->model, sizeof p->model, "%s", name);
    enum status status = recipe_preset(p, o);
    options_destroy(&o);
    p->device = PLAN_DEVICE_CPU;
    return status == OK ? plan_settle(p, 1) : status;
}

static int64_t count_by_program(const struct plan *plan) {
    struct program p;
    program_init(&p);
    int64_t n = llama_build(plan, &p) == OK ? program_n_params(&p) : -1;
    program_fini(&p);
    return n;
}

/* total_size / 2 in the index of each model's published safetensors files, which are bf16. */
TEST(test_llama_sizes_have_exactly_the_published_parameters) {
    const struct { const char *name; int64_t n; } sizes[] = {
        {"tinyllama-1.1b", 1100048384}, {"llama2-7b", 6738415616},  {"llama2-13b", 13015864320},
        {"llama2-70b", 68976648192},    {"llama3-8b", 8030261248}, {"llama3-70b", 70553706496},
        {"llama3.1-8b", 8030261248},    {"llama3.2-1b", 1235814400}, {"mistral-7b", 7248023552},
        {"mistral-nemo-12b", 12247782400}, {"qwen2.5-0.5b", 494032768}, {"qwen2.5-7b", 7615616512},
        {"smollm2-135m", 134515008}, {"qwen3-0.6b", 596049920}, {"qwen3-1.7b", 1720574976},
        {"qwen3-4b", 4022468096}, {"qwen3-8b", 8190735360}, {"olmo2-1b", 1484916736}, {"olmo2-7b", 7298617344},
        {"olmo2-13b", 13716198400}, {"seed-oss-36b", 36151104512}, {"mistral-7b-v0.1", 7241732096}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct plan p;
        assert_ok(preset(&p, sizes[i].name));
        assert_ptr_equal(p.arch, &model_llama);
        assert_true(llama_n_params(&p) == sizes[i].n);
        assert_true(count_by_program(&p) == sizes[i].n);
    }
}

/* Mixtral 8x7B: 46.7e9 parameters, of which a token uses 12.9e9 (Jiang et al. 2024, section 1). */
TEST(test_mixtral_has_exactly_the_published_parameters) {
    struct plan p;
    assert_ok(preset(&p, "mixtral-8x7b"));
    assert_ptr_equal(p.arch, &model_mixtral);
    assert_true(llama_n_params(&p) == 46702792704);
    assert_true(count_by_program(&p) == 46702792704);
    int64_t norms = (2 * 32 + 1) * 4096, table = 32000 * 4096, met = 12879925248;
    assert_true(llama_matmul_params(&p) == met - norms - table);
}

/* Half the total_size in the index of each model's published files, which are bf16: "30.5B in total and 3.3B
 * activated", and "235B in total and 22B activated". */
TEST(test_qwen3_moe_has_exactly_the_published_parameters) {
    const struct { const char *name; int64_t n, active; } sizes[] = {
        {"qwen3-30b-a3b", 30532122624, 3352}, {"qwen3-235b-a22b", 235093634560, 22}};
    for (int i = 0; i < 2; i++) {
        struct plan p;
        assert_ok(preset(&p, sizes[i].name));
        assert_ptr_equal(p.arch, &model_moe);
        assert_true(llama_n_params(&p) == sizes[i].n);
        assert_true(count_by_program(&p) == sizes[i].n);
        int64_t active = llama_matmul_params(&p) + p.vocab * p.hidden;
        assert_int_equal(i ? active / 1000000000 : active / 1000000, sizes[i].active);
    }
}

/* "116.8B total and 5.1B active", "20.9B total and 3.6B active": OpenAI 2025, table 1. Its active parameters have the
 * head, and the 20B's also the table. */
TEST(test_gpt_oss_has_exactly_the_published_parameters) {
    const struct { const char *name; int64_t n, active; } sizes[] = {
        {"gpt-oss-20b", 20914757184, 36}, {"gpt-oss-120b", 116829156672, 51}};
    for (int i = 0; i < 2; i++) {
        struct plan p;
        assert_ok(preset(&p, sizes[i].name));
        assert_ptr_equal(p.arch, &model_gpt_oss);
        assert_true(llama_n_params(&p) == sizes[i].n);
        assert_true(count_by_program(&p) == sizes[i].n);
        assert_int_equal((llama_matmul_params(&p) + 50000000) / 100000000, sizes[i].active);
    }
}

/* ---- figures that talks quote ---- */

/* "LLaMA-2 70B: 140 + 140 + 840 GB" is for weights, gradients and the optimizer: 2, 2 and 12 bytes for each of 70e9
 * parameters. The model has 1.5% fewer. */
TEST(test_llama2_70b_needs_140_140_and_840_gb) {
    struct plan p;
    struct run r;
    assert_ok(preset(&p, "llama2-70b"));
    p.precision = PRECISION_BF16;
    p.global_batch = p.micro_batch = 1;
    assert_ok(plan_settle(&p, 1));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    const struct { enum role role; double quoted; } roles[] = {
        {ROLE_PARAM, 140}, {ROLE_GRAD, 140}, {ROLE_OPTIM, 840}};
    for (int i = 0; i < 3; i++) {
        double each = (double)r.memory.bytes[TIER_DEVICE][roles[i].role] / (double)llama_n_params(&p);
        assert_close(each * 70e9 / 1e9, roles[i].quoted, 0.01);
    }
    run_destroy(&r);
}

/* "70B, 8 x 4096: 40 GB of cache", in 16 bits, counts keys or values only, and as if every head had its own. Keys and
 * values together are 86 GB with 64 heads of keys, and 10.7 GB with Llama 2's 8, each of which serves 8 heads. */
TEST(test_the_cache_of_llama2_70b_is_an_eighth_for_sharing_keys) {
    struct plan p;
    assert_ok(preset(&p, "llama2-70b"));
    p.precision = PRECISION_BF16;
    assert_close(8 * (double)decode_cache_bytes(&p) / 1e9, 10.7, 0.05);
    model_options(&p)->kv_heads = 64;
    assert_close(8 * (double)decode_cache_bytes(&p) / 1e9, 86, 0.5);
    assert_close(8 * (double)decode_cache_bytes(&p) / 2 / 1e9, 40, 4);
}

/* The MFU formula and the bill count the same things: see models/gpt/test_gpt.c. */
TEST(test_llama_flops_are_the_formula) {
    struct plan p;
    struct run r;
    assert_ok(preset(&p, "tinyllama-1.1b"));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    double sum = 0;
    for (int k = 0; k < N_ROW_KINDS; k++) sum += r.bill.flops[k];
    assert_close(sum / (double)(p.global_batch * p.seq), llama_flops_per_token(&p), 0);
    run_destroy(&r);
    /* every second layer counts 100 keys for each query, and the others all */
    double whole = llama_flops_per_token(&p);
    plan_set_number(&p, "window", 100);
    plan_set_word(&p, "window-layers", "fs", 0);
    assert_close(whole - llama_flops_per_token(&p), 12. * 11 * 2048 * (double)(p.seq - 100), 1e-6);
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    sum = 0;
    for (int k = 0; k < N_ROW_KINDS; k++) sum += r.bill.flops[k];
    assert_close(sum / (double)(p.global_batch * p.seq), llama_flops_per_token(&p), 0);
    run_destroy(&r);
}

/* Queries and keys are products of one norm, so tp enters once for both and backward all-reduces once. */
TEST(test_tp_enters_each_half_of_a_layer_once) {
    struct plan p;
    struct run r;
    assert_ok(preset(&p, "tinyllama-1.1b"));
    p.mesh.tp = 2;
    assert_ok(plan_settle(&p, 2));
    assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
    int enters = 0;
    for (int i = 0; i < r.program.n_steps; i++) enters += r.program.steps[i].op == &op_tp_enter;
    assert_int_equal(enters, 2 * p.layers + 1);                      /* and the head */
    run_destroy(&r);
}

TEST(test_arch_chooses_among_presets_of_a_name) {
    struct plan p;
    struct options *o;
    assert_ok(recipe_options_create(NULL, &p, &o));
    snprintf(p.arch_name, sizeof p.arch_name, "llama");
    assert_ok(recipe_preset(&p, o));
    assert_ptr_equal(p.arch, &model_llama);
    assert_int_equal(model_options(&p)->kv_heads, 2);
    snprintf(p.model, sizeof p.model, "gpt2-124m");
    assert_fails(recipe_preset(&p, o), E_CONFIG, "of arch=llama is called model=gpt2-124m", "tiny, tinyllama-1.1b");
    snprintf(p.arch_name, sizeof p.arch_name, "lama");
    assert_fails(recipe_preset(&p, o), E_CONFIG, "arch=lama", "gpt, llama");
    options_destroy(&o);
}

TEST(test_impossible_sizes_are_refused) {
    struct plan p = parity_plan();
    model_options(&p)->kv_heads = 3;
    assert_fails(plan_settle(&p, 1), E_CONFIG, "kv-heads=3", "heads=8", "1, 2, 4, 8");
    model_options(&p)->kv_heads = 2, p.mesh.tp = 4;
    assert_ok(plan_settle(&p, 4));
    assert_fails(technique_tp.check(&p), E_CONFIG, "tp=4", "kv-heads=2", "use one of 1, 2");
    struct program program;
    program_init(&program);
    assert_fails(train_recipe.models[0]->build(&p, &program), E_CONFIG, "kv-heads=2", "arch llama");
    program_fini(&program);
}

/* 8 heads of 4 channels share 2 heads of keys; the MLP's width is no multiple of hidden. */
static struct plan serial_plan(void) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.arch = &model_llama;
    p.hidden = 32;
    m->kv_heads = 2;
    m->ffn = 24;
    plan_set_number(&p, "rope-theta", 100);
    m->tie = 0;
    return p;
}

/* Biases everywhere, heads of 6 channels with norms of queries and keys, and positions of which some are slowed. */
static struct plan plan_of_today(void) {
    struct plan p = serial_plan();
    model_options(&p)->head_dim = 6;
    plan_set_word(&p, "rope-scaling", "yarn:4:16:0.5:8:1.2", 0);
    plan_set_word(&p, "attention-bias", "all", 0);
    plan_set_number(&p, "mlp-bias", 1);
    plan_set_word(&p, "qk-norm", "head", 0);
    return p;
}

/* Norms of all queries and keys, and after attention and MLP. */
static struct plan plan_of_late_norms(void) {
    struct plan p = serial_plan();
    model_options(&p)->norm_eps = 0.003;
    plan_set_word(&p, "qk-norm", "all", 0);
    plan_set_number(&p, "post-norm", 1);
    return p;
}

/* Three tokens are seen in all layers but every third. */
static struct plan plan_with_windows(void) {
    struct plan p = serial_plan();
    plan_set_number(&p, "window", 3);
    plan_set_word(&p, "window-layers", "ssf", 0);
    return p;
}

static struct plan plan_with_sinks(void) {
    struct plan p = plan_with_windows();
    struct llama_options *o = plan_own(&p, &model_llama.options);
    o->attention_cap = 0.02;                                         /* scores are of this size at first */
    o->attention_sinks = 1;
    return p;
}

/* Experts of other widths than the MLP, in every second layer, whose gates are not divided by their sum. */
static struct plan plan_with_experts(void) {
    struct plan p = serial_plan();
    struct model_options *m = model_options(&p);
    p.arch = &model_moe;
    m->experts = 4, m->experts_per_token = 2, m->moe_group = 2, m->capacity = 0;
    m->aux_loss = 0.05, m->z_loss = 0.01;
    plan_set_number(&p, "expert-ffn", 20);
    plan_set_word(&p, "expert-layers", "de", 0);
    plan_set_number(&p, "router-norm", 0);
    return p;
}

/* The program has experts in the layers of the letters, and counts what the formula does. */
TEST(test_experts_are_in_their_layers) {
    struct plan p = plan_with_experts();
    struct program program;
    int routes = 0;
    program_init(&program);
    assert_ok(llama_build(&p, &program));
    assert_int_equal(program_n_params(&program), llama_n_params(&p));
    for (int i = 0; i < program.n_steps; i++) {
        const struct step *s = &program.steps[i];
        if (s->op != &op_moe_route) continue;
        routes++;
        assert_true(s->moe.raw);
        assert_string_equal(program.blocks[s->block].name, ((const char *[]){"h1", "h3", "h5", "h7"})[routes - 1]);
    }
    assert_int_equal(routes, 4);
    program_fini(&program);
    int64_t matrices = 2 * 32 * (8 + 2) * 4;                         /* of queries and projection, keys and values */
    assert_int_equal(llama_matmul_params(&p),
                     8 * matrices + 4 * 3 * 24 * 32 + 4 * (2 * 3 * 20 * 32 + 4 * 32) + p.vocab * 32);
}

static enum status build_with_experts(int64_t experts, const char *layers, int64_t width, int64_t tp) {
    struct plan p = plan_with_experts();
    struct program program;
    model_options(&p)->experts = experts, p.mesh.tp = tp;
    plan_set_word(&p, "expert-layers", layers, 0);
    plan_set_number(&p, "expert-ffn", width);
    program_init(&program);
    enum status status = llama_build(&p, &program);
    program_fini(&program);
    return status;
}

TEST(test_impossible_experts_are_refused) {
    assert_ok(build_with_experts(4, "e", 20, 1));
    assert_fails(build_with_experts(4, "ex", 20, 1), E_CONFIG, "expert-layers=ex", "use letters e and d");
    assert_fails(build_with_experts(4, "", 20, 1), E_CONFIG, "expert-layers=;", "use letters e and d");
    assert_fails(build_with_experts(4, "ddddddddde", 20, 1), E_CONFIG, "expert-layers=ddddddddde", "layers=8",
                 "use --expert-layers e");
    assert_fails(build_with_experts(0, "e", 20, 1), E_CONFIG, "expert-ffn=20", "experts=0", "give --experts");
    assert_fails(build_with_experts(4, "de", 20, 16), E_CONFIG, "tp=16", "ffn=24", "use one of 1, 2");
    assert_ok(build_with_experts(4, "e", 20, 16));                   /* tp cuts no experts */
}

static int count_norms(const struct program *p, double eps) {
    int n = 0;
    for (int i = 0; i < p->n_steps; i++) n += p->steps[i].op->rule == RULE_NORM && p->steps[i].norm.eps == eps;
    return n;
}

/* Two layers, and what comes before and after them. */
/* Each option's params, by the program and by the formula. */
TEST(test_biases_and_heads_are_counted) {
    struct plan p = plan_of_today();
    for (int kind = 0; kind < 3; kind++) {
        plan_set_number(&p, "attention-bias", kind);
        for (int mlp = 0; mlp < 2; mlp++) {
            plan_set_number(&p, "mlp-bias", mlp);
            plan_set_number(&p, "attention-sinks", mlp);
            int64_t bias = (kind ? (8 + 2 * 2) * 6 : 0) + (kind == 2 ? 32 : 0) + (mlp ? 2 * 24 + 32 + 8 : 0);
            struct plan none = p;
            plan_set_number(&none, "attention-bias", 0);
            plan_set_number(&none, "mlp-bias", 0);
            plan_set_number(&none, "attention-sinks", 0);
            assert_int_equal(count_by_program(&p), llama_n_params(&p));
            assert_int_equal(llama_n_params(&p) - llama_n_params(&none), p.layers * bias);
        }
    }
}

/* Gains of a layer: two of 32 channels; of a head of 6 channels, for queries and keys; of 8 and 2 heads of 4. */
TEST(test_norms_of_queries_and_keys_are_counted) {
    const struct { struct plan plan; int64_t gains; } cases[] = {
        {plan_of_today(), 2 * 6}, {plan_of_late_norms(), (8 + 2) * 4}};
    for (int i = 0; i < 2; i++) {
        struct plan p = cases[i].plan, none = p;
        plan_set_word(&none, "qk-norm", "none", 0);
        assert_int_equal(count_by_program(&p), llama_n_params(&p));
        assert_int_equal(llama_n_params(&p) - llama_n_params(&none), p.layers * cases[i].gains);
    }
}

static const char *read_by(const struct program *p, const char *made) {
    for (int i = 0; i < p->n_steps; i++)
        if (!strcmp(p->slots[p->steps[i].out[0]].name, made)) return p->slots[p->steps[i].in[0]].name;
    return "nothing";
}

/* Norms of queries and keys lie between products and positions, and late ones between products and sums. */
TEST(test_norms_are_where_the_papers_have_them) {
    static const char *const heads[][2] = {
        {"h1.q", "h1.norm1"}, {"h1.q.norm", "h1.q"}, {"h1.k.norm", "h1.kv"}, {"h1.q.turned", "h1.q.norm"},
        {"h1.k.turned", "h1.k.norm"}, {"h1.res1", "h1.proj"}, {"h1.up", "h1.norm2"}, {"h1.res2", "h1.down"}};
    static const char *const late[][2] = {
        {"h1.q", "h0.res2"}, {"h1.kv", "h0.res2"}, {"h1.q.turned", "h1.q.norm"}, {"h1.k.turned", "h1.k.norm"},
        {"h1.post1", "h1.proj"}, {"h1.res1", "h1.post1"}, {"h1.up", "h1.res1"}, {"h1.post2", "h1.down"},
        {"h1.res2", "h1.post2"}, {"head.norm", "h7.res2"}};
    struct plan plans[] = {plan_of_today(), plan_of_late_norms()};
    for (int i = 0; i < 2; i++) {
        struct program p;
        program_init(&p);
        assert_ok(llama_build(&plans[i], &p));
        for (size_t k = 0; i == 0 && k < sizeof heads / sizeof *heads; k++)
            assert_string_equal(read_by(&p, heads[k][0]), heads[k][1]);
        for (size_t k = 0; i == 1 && k < sizeof late / sizeof *late; k++)
            assert_string_equal(read_by(&p, late[k][0]), late[k][1]);
        program_fini(&p);
    }
}

/* Two all-reduces of a number a token, forward and backward, for queries and keys of every layer; and with norms of a
 * head, which need none, the sum of the gains' gradients once a step. */
TEST(test_norms_of_all_heads_send_a_number_a_token) {
    double sent[2];
    for (int all = 0; all < 2; all++) {
        struct plan p = plan_of_late_norms();
        struct run r;
        p.precision = PRECISION_FP32;
        p.mesh.tp = 2;
        plan_set_word(&p, "qk-norm", all ? "all" : "head", 0);
        assert_ok(plan_settle(&p, 2));
        assert_ok(run_compile(&r, &train_recipe, &p, 0, NULL, NULL));
        sent[all] = r.bill.wire_bytes[AXIS_TP];
        run_destroy(&r);
    }
    struct plan p = plan_of_late_norms();
    double tokens = (double)(p.global_batch * p.seq), gains = 2.0 * 4 * sizeof(float);
    assert_close(sent[1] - sent[0], (double)p.layers * (4 * tokens * sizeof(float) - gains), 0);
}

static enum status build_with_scaling(const char *text) {
    struct plan p = serial_plan();
    struct program program;
    plan_set_word(&p, "rope-scaling", text, 0);
    program_init(&program);
    enum status status = llama_build(&p, &program);
    program_fini(&program);
    return status;
}

static enum status build_with_windows(int64_t window, const char *layers) {
    struct plan p = serial_plan();
    struct program program;
    plan_set_number(&p, "window", window);
    plan_set_word(&p, "window-layers", layers, 0);
    program_init(&program);
    enum status status = llama_build(&p, &program);
    program_fini(&program);
    return status;
}

/* The program's steps of attention have the windows of the letters, again and again, and the cap and sinks. */
TEST(test_windows_are_those_of_their_layers) {
    struct plan p = plan_with_sinks();
    struct program program;
    int n = 0;
    program_init(&program);
    assert_ok(llama_build(&p, &program));
    for (int i = 0; i < program.n_steps; i++) {
        const struct attention_view *view = &program.steps[i].attention.view;
        if (program.steps[i].op->rule != RULE_ATTENTION) continue;
        assert_int_equal(view->window, n++ % 3 == 2 ? 0 : 3);
        assert_close(view->cap, 0.02, 0);
        assert_true(view->sinks && program.steps[i].n_weight == 1);
    }
    assert_int_equal(n, 8);
    program_fini(&program);
}

TEST(test_impossible_options_of_today_are_refused) {
    assert_fails(build_with_scaling("dynamic:2"), E_CONFIG, "rope-scaling=dynamic:2", "yarn:FACTOR:CONTEXT");
    assert_fails(build_with_scaling("linear"), E_CONFIG, "use linear:FACTOR", "above 0");
    assert_fails(build_with_scaling("llama3:8"), E_CONFIG, "llama3:FACTOR:CONTEXT");
    assert_fails(build_with_scaling("yarn:4:64:1"), E_CONFIG, "yarn:FACTOR:CONTEXT");
    assert_fails(build_with_scaling("llama3:8:64:4:1"), E_CONFIG, "between 4 and 1", "smaller number first");
    assert_fails(build_with_scaling("linear:-2"), E_CONFIG, "above 0");
    assert_fails(build_with_scaling("linear:2x"), E_CONFIG, "above 0");
    assert_ok(build_with_scaling("llama3:8:64:2:5"));
    assert_fails(build_with_windows(3, "sfx"), E_CONFIG, "window-layers=sfx", "use letters s and f");
    assert_fails(build_with_windows(3, ""), E_CONFIG, "window-layers=;", "use letters s and f");
    assert_fails(build_with_windows(0, "sf"), E_CONFIG, "window-layers=sf", "window=0", "give --window");
    assert_ok(build_with_windows(3, "f"));
    struct plan p = serial_plan();
    struct program program;
    model_options(&p)->head_dim = 5;
    program_init(&program);
    assert_fails(llama_build(&p, &program), E_CONFIG, "head-dim=5", "use 6");
    program_fini(&program);
    p = plan_of_late_norms();
    plan_set_word(&p, "attention-bias", "all", 0);
    assert_fails(llama_build(&p, &program), E_CONFIG, "post-norm=on", "--attention-bias qkv");
    plan_set_word(&p, "attention-bias", "qkv", 0);
    plan_set_number(&p, "mlp-bias", 1);
    assert_fails(llama_build(&p, &program), E_CONFIG, "post-norm=on", "--mlp-bias off");
    plan_set_number(&p, "mlp-bias", 0);
    p.sums = PLAN_SUMS_FIXED;
    assert_fails(llama_build(&p, &program), E_CONFIG, "sums=fixed", "qk-norm", "sums=fast");
}

TEST(test_norm_eps_is_that_of_every_norm) {
    const struct { const char *arch; int norms; double usual; } archs[] = {
        {"gpt", 5, 0}, {"llama", 5, 0}, {"mixtral", 5, 0}, {"bert", 6, 1e-12}, {"t5", 7, 1e-6}};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++) {
        struct plan p = parity_plan();
        struct program program;
        assert_ok(recipe_arch(&p, archs[i].arch));
        p.layers = 2;
        if (!strcmp(archs[i].arch, "mixtral")) model_options(&p)->experts = 2;
        for (int said = 0; said < 2; said++) {
            model_options(&p)->norm_eps = said ? 0.003 : 0;
            program_init(&program);
            assert_ok(p.arch->build(&p, &program));
            assert_int_equal(count_norms(&program, said ? 0.003 : archs[i].usual), archs[i].norms);
            program_fini(&program);
        }
    }
}

/* In each MLP, and in BERT's head; experts have it, too. */
TEST(test_activation_is_that_of_every_mlp) {
    const struct { const char *arch; int steps, experts; unsigned takes; enum activation usual; } archs[] = {
        {"gpt", 2, 0, ACTIVATIONS_PLAIN, ACTIVATION_GELU_TANH}, {"gpt", 2, 2, ACTIVATIONS_PLAIN, ACTIVATION_GELU_TANH},
        {"bert", 3, 0, ACTIVATIONS_PLAIN, ACTIVATION_GELU}, {"t5", 2, 0, ACTIVATIONS_ALL, ACTIVATION_RELU},
        {"llama", 2, 0, ACTIVATIONS_GATED, ACTIVATION_SWIGLU}, {"mixtral", 2, 2, ACTIVATIONS_GATED, ACTIVATION_SWIGLU}};
    for (size_t i = 0; i < sizeof archs / sizeof *archs; i++)
        for (int said = 0; said < N_ACTIVATIONS; said++) {
            struct plan p = parity_plan();
            struct program program;
            assert_ok(recipe_arch(&p, archs[i].arch));
            p.layers = 2, model_options(&p)->experts = archs[i].experts, model_options(&p)->activation = said;
            program_init(&program);
            enum status status = p.arch->build(&p, &program);
            int n = 0;
            for (int k = 0; k < program.n_steps; k++)
                n += program.steps[k].op == activation_op(said ? (enum activation)said : archs[i].usual);
            if (said && !(archs[i].takes >> said & 1)) assert_fails(status, E_CONFIG, "activation=");
            else assert_true(status == OK && n == archs[i].steps);
            program_fini(&program);
        }
}

/* ---- parity ---- */

/* Shard the sequence: cp 2, and other axes as far as the world has ranks. */
static void try_cp(struct layout_tally *t, layout_try *try) {
    int world = comm_world_size();
    for (int by = 0; world > 1 && by < 3; by++) {
        struct plan p = t->reference->run.plan;
        p.settled = false;
        p.mesh.cp = 2, p.mesh.tp = world >= 4 ? 2 : 1, p.mesh.dp = world / (2 * p.mesh.tp);
        cp_options(&p)->by = by;
        if (by == CP_BY_ULYSSES && llama_options(&p)->attention_sinks) continue;
        if (by == CP_BY_ULYSSES) p.mesh.tp = 1, p.mesh.pp = world / 2 / p.mesh.dp;   /* keys have two heads */
        plan_set_number(&p, "sp", p.mesh.tp > 1);
        plan_set_number(&p, "zero", by == CP_BY_RING ? 3 : 1);
        p.micro_batch = p.global_batch < 2 * p.mesh.dp ? 1 : 2;
        try(t, p);
    }
}

static bool divides_keys(const struct plan *p) { return plan_kv_heads(p) % p->mesh.tp == 0; }

static void try_layouts(struct plan serial) {
    static const struct layout_tries tries = {layout_try_settled, try_cp, divides_keys};
    assert_int_equal(layouts_differ(&serial, &tries), 0);
}

TEST(test_every_layout_of_llama_equals_serial_fp64) { try_layouts(serial_plan()); }
TEST(test_every_layout_of_a_llama_of_today_equals_serial_fp64) { try_layouts(plan_of_today()); }
TEST(test_every_layout_of_late_norms_equals_serial_fp64) { try_layouts(plan_of_late_norms()); }
TEST(test_every_layout_of_a_llama_with_windows_equals_serial_fp64) { try_layouts(plan_with_windows()); }
TEST(test_every_layout_of_a_llama_with_a_cap_and_sinks_equals_serial_fp64) { try_layouts(plan_with_sinks()); }

TEST(test_every_layout_of_a_llama_with_experts_in_some_layers_equals_serial_fp64) { try_layouts(plan_with_experts()); }

/* Shards of the sequence of two tiles, and windows that end in each of them. */
TEST(test_windows_over_shards_of_several_tiles_equal_serial_fp64) {
    struct plan p = plan_with_windows();
    struct reference reference;
    p.seq = 256, p.layers = 2, p.global_batch = p.micro_batch = 2;
    plan_set_number(&p, "window", 90);
    plan_set_word(&p, "window-layers", "sf", 0);
    enum status status = reference_init(&reference, &p);
    struct layout_tally t = {&reference, 0};
    if (agree_all(status == OK)) try_cp(&t, layout_try_settled);
    reference_fini(&reference);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

/* Products of a norm behind tp_enter are cast one by one; their scales are those of the whole tensors. */
TEST(test_llama_in_fp8_equals_serial) {
    struct reference reference;
    struct plan serial = serial_plan();
    fp8_options(&serial)->on = 1;
    enum status status = reference_init(&reference, &serial);
    struct layout_tally t = {&reference, 0};
    bool ready = agree_all(status == OK);
    for (int i = 2; ready && i < N_COMPANIES; i += 5) layout_try_settled(&t, layout_in_company(serial, i));
    reference_fini(&reference);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

TEST(test_materialised_attention_of_shared_keys_equals_blocked) {
    struct reference reference;
    struct plan serial = serial_plan(), p = serial;
    enum status status = reference_init(&reference, &serial);
    struct layout_tally t = {&reference, 0};
    model_options(&p)->attention = ATTENTION_MATERIALISED;
    p.mesh.tp = comm_world_size() > 1 ? 2 : 1;
    p.mesh.dp = comm_world_size() / p.mesh.tp;
    p.micro_batch = 1;
    if (agree_all(status == OK)) layout_try_settled(&t, p);
    reference_fini(&reference);
    assert_ok(status);
    assert_int_equal(t.failed, 0);
}

TESTS(unit_test(test_llama_sizes_have_exactly_the_published_parameters),
      unit_test(test_mixtral_has_exactly_the_published_parameters), unit_test(test_llama_flops_are_the_formula),
      unit_test(test_llama2_70b_needs_140_140_and_840_gb),
      unit_test(test_the_cache_of_llama2_70b_is_an_eighth_for_sharing_keys),
      unit_test(test_tp_enters_each_half_of_a_layer_once), unit_test(test_arch_chooses_among_presets_of_a_name),
      unit_test(test_impossible_sizes_are_refused), unit_test(test_norm_eps_is_that_of_every_norm),
      unit_test(test_activation_is_that_of_every_mlp),
      unit_test(test_biases_and_heads_are_counted), unit_test(test_impossible_options_of_today_are_refused),
      unit_test(test_windows_are_those_of_their_layers), unit_test(test_experts_are_in_their_layers),
      unit_test(test_impossible_experts_are_refused), unit_test(test_qwen3_moe_has_exactly_the_published_parameters),
      unit_test(test_gpt_oss_has_exactly_the_published_parameters),
      unit_test(test_every_layout_of_a_llama_with_experts_in_some_layers_equals_serial_fp64),
      unit_test(test_every_layout_of_llama_equals_serial_fp64),
      unit_test(test_every_layout_of_a_llama_with_windows_equals_serial_fp64),
      unit_test(test_every_layout_of_a_llama_with_a_cap_and_sinks_equals_serial_fp64),
      unit_test(test_windows_over_shards_of_several_tiles_equal_serial_fp64),
      unit_test(test_every_layout_of_a_llama_of_today_equals_serial_fp64),
      unit_test(test_norms_of_queries_and_keys_are_counted), unit_test(test_norms_are_where_the_papers_have_them),
      unit_test(test_norms_of_all_heads_send_a_number_a_token),
      unit_test(test_every_layout_of_late_norms_equals_serial_fp64),
      unit_test(test_llama_in_fp8_equals_serial),
      unit_test(test_materialised_attention_of_shared_keys_equals_blocked))
