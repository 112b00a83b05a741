/* parses: lib/base lib/run/plan.c lib/run/plan_options.c lib/run/recipe.c driver/recipe.c driver/train/train_options.c
 * tests/fuzz/options_again.c */
/* A --config file. */
#include "driver/recipe.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct plan plan;
    struct options *o;
    MUST(recipe_options_create(NULL, &plan, &o) == OK);
    enum status status = options_read_file(o, fuzz_file(data, size));
    MUST(status == OK || status == E_USAGE || status == E_FORMAT);
    if (status == OK) options_must_read_again(o);
    options_destroy(&o);
    return 0;
}
