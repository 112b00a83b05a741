/* ranks: 1 2  more: 4  device: cpu  threads: 1
 *
 * The recordings of a layout's ranks, assembled, equal the serial run's: every name, every element, and replicas
 * alike. */
#include "driver/recipe.h"
#include "lib/base/grow.h"
#include "lib/comm/comm.h"
#include "mixed_precision/mixed_precision.h"
#include "oracle/check.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 2 };
static const double bound = 1e-10;

static enum status record(const struct plan *plan, int world, const char *folder, struct kept kept[STEPS]) {
    struct plan p = *plan;
    struct run run = {0};
    struct recorder r = {.run = NULL};
    TRY(fail_agree(group_world(), plan_settle(&p, world)));
    TRY(run_create(&run, &train_recipe, &p, WATCH_NOTHING));
    enum status status = layout_use_demo(&run);
    if (status == OK) status = recorder_attach(&r, &run, RECORD_OPS, (struct shaking){0});
    for (int step = 0; step < STEPS && status == OK; step++) {
        recorder_begin(&r);
        status = run_step(&run);
        if (status == OK) status = recorder_end(&r);
        if (status == OK && folder) status = recording_write(folder, step + 1, comm_world_rank(), &r.kept, FP64);
        if (!folder) kept[step] = r.kept, r.kept = (struct kept){0};
    }
    recorder_detach(&r);
    run_destroy(&run);
    return fail_agree(group_world(), status);
}

/* Count the names in one step of `serial` whose values differ in `found`, and print the first. */
static int count_different(struct kept *serial, struct kept *found, const char *layout) {
    int first, different = 0;
    const char *last = "";
    kept_find(serial, "", &first);
    for (int i = 0; i < serial->n; i++) {
        const char *name = serial->piece[i].name;
        struct whole x = {.x = NULL}, y = {.x = NULL};
        if (!strcmp(name, last)) continue;
        last = name;
        enum status status = kept_whole(found, name, &x);
        if (status == OK) status = kept_whole(serial, name, &y);
        bool alike = status == OK && x.n == y.n && x.missing == 0 && x.apart <= bound &&
                     whole_difference(x.x, y.x, NULL, x.n, NULL) <= bound;
        if (!alike && different++ == 0)
            fprintf(stderr, "%s: %s: %s, %d missing, ranks apart by %.1e\n", layout, name, status_name(status),
                    (int)x.missing, x.apart);
        status_clear();
        whole_fini(&x);
        whole_fini(&y);
    }
    return different;
}

/* @return the number of differences, on rank 0 */
static int compare(const char *folder, struct kept serial[STEPS], const char *layout) {
    struct recording r = {.steps = STEPS};
    int different = 0;
    snprintf(r.folder, sizeof r.folder, "%s", folder);
    for (int step = 0; step < STEPS && comm_is_rank_0(); step++) {
        struct kept found = {0};
        enum status status = recording_read(&r, step + 1, &found);
        different += status == OK ? count_different(&serial[step], &found, layout) : 1;
        kept_fini(&found);
    }
    return different;
}

/* Another one each time. */
static void new_folder(char path[512]) {
    static int n;
    char name[32];
    snprintf(name, sizeof name, "recorded-%d", n++);
    snprintf(path, 512, "%s", test_path(name));
    (void)comm_broadcast(group_world(), path, 512, UINT8, 0);
}

static bool try_layouts(const struct plan *serial_plan, int n) {
    struct kept serial[STEPS] = {{0}};
    bool ok = record(serial_plan, 1, NULL, serial) == OK;
    for (int i = 0; i < n && agree_all(ok); i++) {
        struct plan p = layout_in_company(*serial_plan, i);
        char folder[512], make[600];
        p.micro_batch = 2;
        new_folder(folder);
        snprintf(make, sizeof make, "mkdir -p %s", folder);
        if (comm_is_rank_0()) ok = system(make) == 0;
        ok = agree_all(ok) && record(&p, comm_world_size(), folder, NULL) == OK;
        if (agree_all(ok)) ok = compare(folder, serial, layout_name(&p)) == 0;
    }
    for (int step = 0; step < STEPS; step++) kept_fini(&serial[step]);
    status_report();
    return agree_all(ok);
}

TEST(test_every_company_records_what_one_rank_does) {
    struct plan p = parity_plan();
    p.loss_chunk = 0;
    assert_true(try_layouts(&p, N_COMPANIES));
}

TEST(test_a_llama_too) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.loss_chunk = 0;
    bool ok = recipe_arch(&p, "llama") == OK;
    m->kv_heads = 4, m->ffn = 24, m->tie = 0, m->dropout = 0;
    assert_true(ok && try_layouts(&p, 6));
}

/* Latents, their products and the shared key. */
TEST(test_latents_too) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    p.loss_chunk = 0;
    bool ok = recipe_arch(&p, "llama") == OK;
    m->ffn = 24, m->head_dim = 6, m->tie = 0, m->dropout = 0;
    plan_set_number(&p, "kv-lora-rank", 12);
    plan_set_number(&p, "q-lora-rank", 14);
    plan_set_number(&p, "rope-head-dim", 2);
    assert_true(ok && try_layouts(&p, 6));
}

/* The order names everything that a step makes, each once, in an order in which a step can make it. */
static void check_order(struct plan p, const char *first_name) {
    struct kept serial[STEPS] = {{0}};
    json_t *order = NULL;
    int first, unknown = 0;
    p.loss_chunk = 0;
    bool ok = record(&p, 1, NULL, serial) == OK;
    assert_ok(plan_settle(&p, 1));
    ok = ok && record_order(&p, RECORD_OPS, &order) == OK;
    for (size_t i = 0; i < json_array_size(order); i++) {
        const char *name = json_string_value(json_object_get(json_array_get(order, i), "name"));
        unknown += kept_find(&serial[0], name, &first) == 0;
        for (int k = 0; k < serial[0].n; k++)
            if (!strcmp(serial[0].piece[k].name, name)) serial[0].piece[k].rank = 1000;
    }
    for (int k = 0; k < serial[0].n; k++) unknown += serial[0].piece[k].rank != 1000;
    for (int step = 0; step < STEPS; step++) kept_fini(&serial[step]);
    assert_true(ok);
    assert_int_equal(unknown, 0);
    assert_string_equal(json_string_value(json_object_get(json_array_get(order, 0), "name")), first_name);
    json_decref(order);
}

TEST(test_the_order_has_every_name_once) { check_order(parity_plan(), "transformer.drop.act"); }

/* The bias of a router's choices has a gradient and no moments. */
TEST(test_the_order_of_routers_has_every_name_once) {
    struct plan p = parity_plan();
    struct model_options *m = model_options(&p);
    assert_ok(recipe_arch(&p, "moe"));
    m->ffn = 24, m->tie = 0, m->dropout = 0, m->experts = 4, m->moe_group = 2;
    plan_set_word(&p, "qk-norm", "head", 0);
    plan_set_number(&p, "router-scores", 1);
    check_order(p, "model.embed_tokens.act");
}

TEST(test_a_model_that_others_do_not_have_is_refused) {
    struct plan p = parity_plan();
    void *fp8;
    assert_non_null(plan_option(&p, "fp8", &fp8));
    *(int *)fp8 = 1;
    assert_fails(record_check(&p, true), E_CONFIG, "fp8=on", "precision=fp64", "leave fp8 out, or use precision bf16");
    assert_ok(record_check(&p, false));
    *(int *)fp8 = 0;
    struct model_options *m = model_options(&p);
    assert_ok(record_check(&p, true));
    m->tie = 0;   /* a GPT-2 with a head of its own: others have it as lm_head */
    assert_ok(record_check(&p, true));
    m->experts = 4;
    assert_fails(record_check(&p, false), E_CONFIG, "h0.", "arch=mixtral");
    m->tie = 1;
    assert_fails(record_check(&p, true), E_CONFIG, "experts=4", "arch=mixtral");
    assert_ok(recipe_arch(&p, "llama"));
    assert_fails(record_check(&p, true), E_CONFIG, "experts=4", "arch=mixtral");
    m->experts = 0;
    assert_ok(recipe_arch(&p, "bert"));
    assert_fails(record_check(&p, true), E_CONFIG, "arch=bert", "tokens and targets of its own");
    assert_ok(record_check(&p, false));
}

/* With this loss scale gradients overflow in the first step: only the scales of fp16 are missing. */
TEST(test_a_reference_whose_fp16_overflows_has_no_scale_of_it) {
    if (comm_world_size() > 1) return;
    struct plan p = parity_plan(), fp16;
    struct data_file *file;
    struct data_split train, val;
    char path[600];
    json_t *scale = NULL;
    p.layers = 1, p.hidden = p.heads = 4, p.global_batch = p.micro_batch = 2, p.steps = 1;
    p.loss_chunk = 0, model_options(&p)->dropout = 0;
    assert_ok(plan_settle(&p, 1));
    fp16 = p;
    mixed_precision_options(&fp16)->scale = 1e12;
    snprintf(path, sizeof path, "rm -rf %s; mkdir -p %s", test_path("overflows"), test_path("overflows"));
    assert_int_equal(system(path), 0);
    snprintf(path, sizeof path, "%s", test_path("overflows"));
    assert_ok(data_open("configs/demo.txt", &file));
    assert_ok(data_split_tail(file, p.seq, 0.1, &train, &val));
    struct record_request q = {&train_recipe, &p, &fp16, 1e12, &train, RECORD_SCALARS, path};
    test_stderr_keep();
    assert_ok(record_reference(&q));
    assert_non_null(strstr(test_stderr_text(), "has no scales of fp16: gradients overflow at step 1"));
    assert_ok(scale_read(path, BF16, &scale));
    json_decref(scale);
    assert_fails(scale_read(path, FP16, &scale), E_DATA, "scale-fp16.json");
    data_close(&file);
}

TESTS(unit_test(test_every_company_records_what_one_rank_does), unit_test(test_a_llama_too),
      unit_test(test_latents_too), unit_test(test_the_order_has_every_name_once),
      unit_test(test_the_order_of_routers_has_every_name_once),
      unit_test(test_a_model_that_others_do_not_have_is_refused),
      unit_test(test_a_reference_whose_fp16_overflows_has_no_scale_of_it))
