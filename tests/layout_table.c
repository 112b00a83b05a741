#include "tests/layout_table.h"
#include "driver/recipe.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum status layout_read(int number, char text[LAYOUT_BYTES]) {
    const char *path = getenv("SUBMISSION");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[LAYOUT_BYTES];
    bool found = false;
    if (!file) return FAIL(E_IO, "cannot open the table %s", path ? path : "(SUBMISSION is not set)");
    while (fgets(line, sizeof line, file))
        if (line[0] == '0' + number && line[1] == ':') snprintf(text, LAYOUT_BYTES, "%s", line + 2), found = true;
    fclose(file);
    if (!found) return FAIL(E_FORMAT, "there is no line \"%d: ...\"", number);
    return strchr(text, '?') ? FAIL(E_TODO, "layout %d is yours to choose", number) : OK;
}

/* word: a value, or --NAME or --NAME=value with one of the names */
static enum status allow(const char *word, const char *names) {
    if (word[0] != '-') return OK;
    for (const char *name = names; !strncmp(word, "--", 2) && *name; name += strspn(name, ", ")) {
        size_t n = strcspn(name, ",");
        if (!strncmp(word + 2, name, n) && (!word[n + 2] || word[n + 2] == '=')) return OK;
        name += n;
    }
    return FAIL(E_FORMAT, "%s is given; a layout may say %s", word, names);
}

enum { MOST_WORDS = 64 };
struct words { int n; char *at[MOST_WORDS]; };

static enum status split(char *text, const char *allowed, struct words *out) {
    for (char *word = strtok(text, " \t\r\n"); word; word = strtok(NULL, " \t\r\n")) {
        if (out->n == MOST_WORDS) return FAIL(E_FORMAT, "too many words");
        if (allowed) TRY(allow(word, allowed));
        out->at[out->n++] = word;
    }
    return OK;
}

enum status layout_parse(const char *given, char *layout, const char *allowed, struct plan *out) {
    char own[LAYOUT_BYTES];
    struct words words = {0};
    struct options *o = NULL;
    snprintf(own, sizeof own, "%s", given);
    TRY(split(own, NULL, &words));
    TRY(split(layout, allowed, &words));
    memset(out, 0, sizeof *out);
    TRY(recipe_options_create(NULL, out, &o));
    enum status status = options_parse(o, words.n, words.at);
    if (status == OK) status = recipe_preset(out, o);
    options_destroy(&o);
    return status;
}
