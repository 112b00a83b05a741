#include "driver/compare/compare_strategy.h"

#include <stdlib.h>
#include <string.h>

static const char blanks[] = " \t\r\n";

/* ---- splitting ---- */
static int count_bars(const char *text) {
    int n = 0;
    for (; *text; text++) n += *text == '|';
    return n;
}

static char *copy_trimmed(const char *text, size_t n) {
    while (n > 0 && strchr(blanks, *text)) text++, n--;
    while (n > 0 && strchr(blanks, text[n - 1])) n--;
    return strndup(text, n);
}

enum status strategies_split(const char *text, struct strategies *out) {
    int n = count_bars(text) + 1;
    *out = (struct strategies){n, calloc((size_t)n, sizeof *out->text)};
    if (!out->text) return FAIL(E_MEMORY, "no memory for %d strategies", n);
    for (int i = 0; i < n; i++) {
        size_t bytes = strcspn(text, "|");
        out->text[i] = copy_trimmed(text, bytes);
        if (!out->text[i]) return FAIL(E_MEMORY, "no memory for %d strategies", n);
        text += bytes + (text[bytes] == '|');
    }
    return OK;
}

void strategies_fini(struct strategies *s) {
    for (int i = 0; s->text && i < s->n; i++) free(s->text[i]);
    free(s->text);
    *s = (struct strategies){0};
}

/* ---- applying ---- */

/* Find the option in train's table; a strategy must not set compare's own options. */
static int find_key(const struct option_table *t, const char *key) {
    for (int i = 0; i < t->n; i++)
        if (!strcmp(t->option[i].name, key)) return i;
    return -1;
}

/* Set an option from the word key=value; a bare key of a boolean option means "on". */
static enum status set_word(char *word, const struct option_table *known, bool *given, struct options *o) {
    char *equals = strchr(word, '=');
    if (equals) *equals = 0;
    const char *value = equals ? equals + 1 : "on";
    int i = find_key(known, word);
    if (i < 0) {
        TRY(options_set(o, word, value, FROM_COMMAND_LINE));         /* an unknown name fails, with a proposal */
        return FAIL(E_USAGE, "%s is the comparison's own; set it outside the strategies", word);
    }
    if (!equals && known->option[i].type != OPTION_BOOL)
        return FAIL(E_USAGE, "%s has no value; write %s=...", word, word);
    if (given[i]) return FAIL(E_USAGE, "%s is set twice; keep one", word);
    given[i] = true;
    return options_set(o, word, value, FROM_COMMAND_LINE);
}

static enum status set_words(char *text, const struct option_table *known, bool *given, struct options *o) {
    char *rest = NULL;
    for (char *word = strtok_r(text, blanks, &rest); word; word = strtok_r(NULL, blanks, &rest))
        TRY(set_word(word, known, given, o));
    return OK;
}

enum status strategy_apply(const char *text, int number, const struct option_table *known, struct options *o) {
    char *copy = strdup(text);
    bool *given = calloc((size_t)known->n, sizeof *given);
    enum status status =
        copy && given ? set_words(copy, known, given, o) : FAIL(E_MEMORY, "no memory for its settings");
    free(copy);
    free(given);
    return status == OK ? OK : FAIL(status, "strategy %d, '%s': %s", number, text, status_message());
}
