/* parses: lib/base lib/run/plan.c lib/run/plan_options.c lib/run/recipe.c driver/recipe.c driver/train/train_options.c
 * tests/fuzz/options_again.c */
/* The words of a command line, one per line. */
#include "driver/recipe.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/checks.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_WORDS = 64 };

/* --config would read any file that the input names; fuzz_options_file.c covers it with its own files. */
static int words_of(char *text, char **words) {
    int n = 0;
    for (char *at = text; at && n < MAX_WORDS;) {
        char *word = strsep(&at, "\n");
        if (strncmp(word, "--config", 8) != 0) words[n++] = word;
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = fuzz_text(data, size), *words[MAX_WORDS];
    struct plan plan;
    struct options *o;
    MUST(recipe_options_create(NULL, &plan, &o) == OK);
    enum status status = options_parse(o, words_of(text, words), words);
    MUST(status == OK || status == E_USAGE);
    if (status == OK) options_must_read_again(o);
    options_destroy(&o);
    free(text);
    return 0;
}
