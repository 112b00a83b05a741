/* parses: lib/base lib/run/plan.c lib/run/plan_options.c lib/run/recipe.c driver/recipe.c driver/train/train_options.c
 * driver/compare/compare_strategy.c tests/fuzz/options_again.c */
/* compare's --strategies. */
#include "driver/compare/compare_strategy.h"
#include "driver/recipe.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/checks.h"
#include <stdlib.h>
#include <string.h>

static void apply(const char *text, int number) {
    struct plan plan;
    struct options *o;
    MUST(!strchr(text, '|') && (!*text || (!strchr(" \t\r\n", *text) && !strchr(" \t\r\n", text[strlen(text) - 1]))));
    MUST(recipe_options_create(NULL, &plan, &o) == OK);
    struct option_table all;
    MUST(recipe_options(&all) == OK);
    enum status status = strategy_apply(text, number, &all, o);
    MUST(status == OK || status == E_USAGE);
    if (status == OK) options_must_read_again(o);
    options_destroy(&o);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size);
    struct strategies s;
    int bars = 0;
    for (const char *c = text; *c; c++) bars += *c == '|';
    MUST(strategies_split(text, &s) == OK && s.n == bars + 1);
    for (int i = 0; i < s.n && i < 4; i++) apply(s.text[i], i + 1);
    strategies_fini(&s);
    free(text);
    return 0;
}
