/* ranks: 1  device: cpu */
#define _GNU_SOURCE
#include "driver/recipe.h"
#include "driver/show/show_views.h"
#include "driver/show/test_show.h"
#include "tests/layouts.h"
#include "tests/test.h"
#include <stdlib.h>

TEST(test_show_types_prints_a_line_a_slot_and_a_param) {
    int code;
    char *said = show_text("types", "--layers 1 --tp 2 --dp 2 --sp", &code);
    bool right = strstr(said, "types on rank 0") && strstr(said, "types of all 4 ranks fit together\n") &&
                 strstr(said, "\nh0.proj.part                 P     S(B)") &&
                 strstr(said, "\nh0.proj                      S(T)  S(B)              S(T)  S(B)") &&
                 strstr(said, "\nh0.ln1.g                     R     R                 P     P       tp dp\n");
    free(said);
    assert_int_equal(code, 0);
    assert_true(right);
    said = show_text("types", "--layers 1", &code);
    right = strstr(said, "nothing is sharded");
    free(said);
    assert_int_equal(code, 0);
    assert_true(right);
}

TEST(test_show_types_refuses_json_and_other_ranks) {
    int code;
    test_stderr_keep();
    free(show_text("types", "--json", &code));
    bool right = code == 2 && strstr(test_stderr_text(), "E_USAGE");
    test_stderr_keep();
    free(show_text("types", "--tp 2 --rank 2", &code));
    right &= code == 2 && strstr(test_stderr_text(), "rank=2") != NULL;
    test_stderr_keep();
    free(show_text("types", "--tp 2 --check-types off", &code));
    right &= code == 2 && strstr(test_stderr_text(), "check-types=off") != NULL;
    assert_true(right);
}

/* A technique with a mistake in the last stage only: the reader of its first all-reduce reads the partial sum. */
static bool always(const struct plan *plan) { return plan != NULL; }
static enum status spoil_last_stage(const struct plan *plan, struct program *p) {
    int at = 0;
    if (plan->place.rank.pp + 1 < plan->place.n.pp) return OK;
    while (strcmp(p->steps[at].op->name, "tp_exit")) at++;
    for (int i = at + 1; i < p->n_steps; i++)
        for (int k = 0; k < p->steps[i].n_in; k++)
            if (p->steps[i].in[k] == p->steps[at].out[0]) p->steps[i].in[k] = p->steps[at].in[0];
    return OK;
}
static const struct technique spoiler = {.name = "spoiler", .wanted = always, .rewrite = spoil_last_stage};

TEST(test_show_types_refuses_what_fits_on_rank_0_only) {
    const struct technique *techniques[MAX_TECHNIQUES];
    struct recipe spoilt = train_recipe;
    struct plan p = parity_plan();
    p.mesh.tp = p.mesh.pp = 2;
    assert_ok(plan_settle(&p, 4));
    memcpy(techniques, train_recipe.techniques, (size_t)spoilt.n_techniques * sizeof *techniques);
    techniques[spoilt.n_techniques++] = &spoiler;
    spoilt.techniques = techniques;
    assert_fails(show_types(&p, &spoilt, 0), E_INTERNAL, "on rank 2 (pp1 tp0)", "h4.proj.part over tp",
                 "after spoiler");
}

TESTS(unit_test(test_show_types_prints_a_line_a_slot_and_a_param),
      unit_test(test_show_types_refuses_json_and_other_ranks),
      unit_test(test_show_types_refuses_what_fits_on_rank_0_only))
