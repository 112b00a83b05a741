/* A rank may start again hours after the others (--respawn, --max-restarts). Its config file may be edited by then. */
#define _GNU_SOURCE /* asprintf */
#include "launch/launch_restart.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void count_word(void *self, const struct option *option, const char *text, enum option_source source) {
    (void)option, (void)text;
    *(int *)self += source >= FROM_FILE;
}

static void add_word(void *self, const struct option *option, const char *text, enum option_source source) {
    struct settled_words *words = self;
    if (source < FROM_FILE || words->n < 0) return;
    words->n = asprintf(&words->at[words->n], "--%s=%s", option->name, text) >= 0 ? words->n + 1 : -1;
}

enum status launch_settle(char *command, const struct options *options, struct settled_words *out) {
    int n_set = 0;
    options_each(options, count_word, &n_set);
    *out = (struct settled_words){.at = calloc((size_t)n_set + 2, sizeof *out->at)};
    if (out->at) out->at[out->n++] = command;
    if (out->at) options_each(options, add_word, out);
    if (out->at && out->n > 0) return OK;
    return FAIL(E_MEMORY, "no memory for a command line of %d words; close other programs", 1 + n_set);
}

void settled_words_free(struct settled_words *words) {
    for (int i = 1; words->at && words->at[i]; i++) free(words->at[i]);
    free(words->at);
    *words = (struct settled_words){0};
}

enum status launch_change(struct options *options, const char *resume, int64_t dp) {
    char number[24];
    snprintf(number, sizeof number, "%" PRId64, dp);
    if (dp) TRY(options_set(options, "dp", number, FROM_COMMAND_LINE));
    if (!resume) return OK;
    TRY(options_set(options, "resume", resume, FROM_COMMAND_LINE));
    TRY(options_set(options, "init", "", FROM_COMMAND_LINE));
    return options_set(options, "metrics-append", "on", FROM_COMMAND_LINE);
}
