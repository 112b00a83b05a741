/* ranks: 1  device: cpu */
#define _GNU_SOURCE
#include "driver/test_show.h"
#include "tests/test.h"
#include <stdlib.h>

static void test_show_types_prints_a_line_a_slot_and_a_param(void **state) {
    (void)state;
    int code;
    char *said = show_text("types", "--layers 1 --tp 2 --dp 2 --sp", &code);
    bool right = strstr(said, "types on rank 0") && strstr(said, "\nh0.proj.part                 P     S(B)") &&
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

static void test_show_types_refuses_json_and_other_ranks(void **state) {
    (void)state;
    int code;
    test_stderr_keep();
    free(show_text("types", "--json", &code));
    bool right = code == 2 && strstr(test_stderr_text(), "E_USAGE");
    test_stderr_keep();
    free(show_text("types", "--tp 2 --rank 2", &code));
    right &= code == 2 && strstr(test_stderr_text(), "rank=2") != NULL;
    assert_true(right);
}

TESTS(unit_test(test_show_types_prints_a_line_a_slot_and_a_param),
      unit_test(test_show_types_refuses_json_and_other_ranks))
