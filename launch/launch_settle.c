/* A rank may be started again hours after the others (--respawn, --max-restarts), after the user has edited the config
 * file for the next job. */
#define _GNU_SOURCE /* asprintf */
#include "launch/launch_settle.h"

#include <stdio.h>
#include <stdlib.h>

static void add_word(void *self, const struct option *option, const char *text, enum option_source source) {
    struct settled_words *words = self;
    if (source != FROM_FILE || words->n < 0) return;
    if (asprintf(&words->at[words->n], "--%s=%s", option->name, text) >= 0) words->n++, words->n_made++;
    else words->n = -1;                      /* no memory */
}

static void count_word(void *self, const struct option *option, const char *text, enum option_source source) {
    (void)option, (void)text;
    *(int *)self += source == FROM_FILE;
}

enum status launch_settle(char *const *command, int n_words, const struct options *read, struct settled_words *out) {
    int n_from_files = 0;
    options_each(read, count_word, &n_from_files);
    *out = (struct settled_words){.at = calloc((size_t)(n_words + n_from_files) + 1, sizeof *out->at)};
    if (!out->at) return FAIL(E_MEMORY, "no memory for a command line of %d words; close other programs", n_words);
    out->at[out->n++] = command[0];
    options_each(read, add_word, out);
    if (out->n < 0) return FAIL(E_MEMORY, "no memory for a command line of %d words; close other programs", n_words);
    const char *file;
    for (int i = 1, skip; i < n_words; i += skip ? skip : 1) {
        skip = options_word(n_words - i, command + i, "config", &file);
        if (!skip) out->at[out->n++] = command[i];
    }
    return OK;
}

void settled_words_free(struct settled_words *words) {
    for (int i = 0; i < words->n_made; i++) free(words->at[1 + i]);
    free(words->at);
    *words = (struct settled_words){0};
}
