#include "tests/fuzz/checks.h"

#include "driver/recipe.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_OPTIONS = 256 };
struct texts { char *word[MAX_OPTIONS]; int n; };

static void add_word(void *self, const struct option *o, const char *text, enum option_source source) {
    struct texts *t = self;
    (void)source;
    size_t n = strlen(o->name) + strlen(text) + 4;
    MUST(t->n < MAX_OPTIONS && (t->word[t->n] = malloc(n)));
    snprintf(t->word[t->n++], n, "--%s=%s", o->name, text);
}

/* Options without a default start as zero, which may be outside of their range; leave them out. */
static void add_given(void *self, const struct option *o, const char *text, enum option_source source) {
    if (source != FROM_DEFAULT) add_word(self, o, text, source);
}

static void free_words(struct texts *t) {
    for (int i = 0; i < t->n; i++) free(t->word[i]);
}

void options_must_read_again(const struct options *o) {
    struct texts given = {.n = 0}, all = {.n = 0}, all_again = {.n = 0};
    struct plan plan;
    struct options *again = NULL;
    options_each(o, add_given, &given);
    options_each(o, add_word, &all);
    MUST(recipe_options_create(NULL, &plan, &again) == OK);
    MUST(options_parse(again, given.n, given.word) == OK);
    options_each(again, add_word, &all_again);
    MUST(all.n == all_again.n);
    for (int i = 0; i < all.n; i++) MUST(!strcmp(all.word[i], all_again.word[i]));
    options_destroy(&again);
    free_words(&given), free_words(&all), free_words(&all_again);
}
