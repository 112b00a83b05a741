/* ranks: 1 */
#include "driver/recipe.h"
#include "models/dlrm/dlrm.h"
#include "tests/test.h"
#include <stdio.h>

static struct plan plan_of(const char *arch, const char *bottom, const char *top) {
    struct plan p;
    assert_ok(recipe_plan(&p));
    assert_ok(recipe_arch(&p, arch));
    *dlrm_options(&p) = (struct dlrm_options){.features = 26, .bag = 1, .dense = 13, .emb_lr = 0.05};
    snprintf(dlrm_options(&p)->bottom, OPTION_TEXT_MAX, "%s", bottom);
    snprintf(dlrm_options(&p)->top, OPTION_TEXT_MAX, "%s", top);
    p.layers = p.heads = p.seq = 1;
    p.hidden = 8, p.vocab = 100;
    p.precision = PRECISION_FP32, p.device = PLAN_DEVICE_CPU;
    return p;
}

static void check_count(const char *arch, const char *bottom, const char *top) {
    struct plan p = plan_of(arch, bottom, top);
    struct program program;
    program_init(&program);
    assert_ok(plan_settle(&p, 1));
    assert_ok(p.arch->build(&p, &program));
    assert_ok(program_infer(&program));
    assert_int_equal(program_n_params(&program), p.arch->n_params(&p));
    program_fini(&program);
}

TEST(test_models_of_clicks_have_as_many_params_as_they_say) {
    check_count("dlrm", "16-12", "20-10");
    check_count("dlrm", "", "");
    check_count("wide-deep", "", "20-10");
}

/* The top MLP has 2000 inputs and layers of 1024, 512, 256 and 1: 2000 x 1024 + 1024 x 512 + 512 x 256 + 256 x 1. */
TEST(test_the_matrices_of_wide_and_deep) {
    struct plan p = plan_of("wide-deep", "", "1024-512-256");
    dlrm_options(&p)->features = 62, dlrm_options(&p)->dense = 16, p.hidden = 32;
    assert_int_equal(dlrm_matrix_params(&p), 2703616);
}

static void refused(struct plan p, const char *what, const char *remedy) {
    struct program program;
    program_init(&program);
    assert_ok(plan_settle(&p, 1));
    assert_fails(p.arch->build(&p, &program), E_CONFIG, what, remedy);
    program_fini(&program);
}

TEST(test_widths_that_are_none_are_refused) {
    refused(plan_of("dlrm", "16,8", "4"), "mlp-bottom=16,8", "512-256");
    refused(plan_of("dlrm", "16", "0"), "mlp-top=0", "512-256");
    refused(plan_of("wide-deep", "16", "4"), "mlp-bottom=16", "use mlp-top");
}

TEST(test_sizes_of_transformers_are_refused) {
    struct plan p = plan_of("dlrm", "16", "4"), q = p;
    p.layers = 2;
    refused(p, "layers: arch=dlrm", "leave layers out");
    model_options(&q)->dropout = 0.1;
    refused(q, "dropout: arch=dlrm", "leave dropout out");
    p = q = plan_of("wide-deep", "", "4");
    model_options(&p)->ffn = 77;
    refused(p, "ffn: arch=wide-deep", "leave ffn out");
    model_options(&q)->tie = 0;
    refused(q, "tie: arch=wide-deep", "leave tie out");
}

TESTS(unit_test(test_models_of_clicks_have_as_many_params_as_they_say), unit_test(test_the_matrices_of_wide_and_deep),
      unit_test(test_widths_that_are_none_are_refused), unit_test(test_sizes_of_transformers_are_refused))
