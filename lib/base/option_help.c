/* --help: one paragraph for each option, below the heading of its group. */
#include "lib/base/option_private.h"

#include <string.h>

enum { MEANING_COLUMN = 30, LAST_COLUMN = 110, PARAGRAPH_BYTES = 2048 };

/* Wrap words between MEANING_COLUMN and LAST_COLUMN. The text already printed on the first line ends at `column`. */
static void print_wrapped(FILE *out, const char *text, int column) {
    fprintf(out, "%*s", column < MEANING_COLUMN ? MEANING_COLUMN - column : 0, "");
    column = column < MEANING_COLUMN ? MEANING_COLUMN : column;
    while (*text) {
        int word = (int)strcspn(text, " ");
        if (column + 1 + word > LAST_COLUMN) {
            fprintf(out, "\n%*s", MEANING_COLUMN, "");
            column = MEANING_COLUMN;
        }
        fprintf(out, " %.*s", word, text);
        column += 1 + word;
        text += word;
        text += *text == ' ';
    }
    fputc('\n', out);
}

static const char *placeholder(const struct option *o) {
    static const char *const words[] = {"[on|off]", "N", "X", "TEXT", "CHOICE"};
    return words[o->type];
}

/* "meaning: an integer from 1 to 64 (ranks); default 8". TEXT has no limits to show; BOOL's placeholder shows them. */
static void describe(const struct option *o, char *text, size_t size) {
    char limits[512] = "";
    bool plain = o->type == OPTION_BOOL || o->type == OPTION_TEXT;
    if (!plain) option_print_limits(o, limits, sizeof limits);
    const char *initial = o->initial && *o->initial ? o->initial : NULL;
    snprintf(text, size, "%s%s%s%s%s", o->meaning, plain ? "" : ": ", limits, initial ? "; default " : "",
             initial ? initial : "");
}

static void print_option(FILE *out, const struct option *o) {
    char text[PARAGRAPH_BYTES];
    describe(o, text, sizeof text);
    print_wrapped(out, text, fprintf(out, "  --%s %s ", o->name, placeholder(o)));
}

static bool group_is_new(const struct options *o, int index) {
    for (int i = 0; i < index; i++)
        if (strcmp(o->option[i]->group, o->option[index]->group) == 0) return false;
    return true;
}

void options_help(const struct options *o, FILE *out) {
    print_wrapped(out, "options from an ini file: the same names, key = value; the command line wins",
                  fprintf(out, "  --config FILE "));
    for (int i = 0; i < o->n; i++) {
        if (!group_is_new(o, i)) continue;
        fprintf(out, "\n%s:\n", o->option[i]->group);
        for (int k = i; k < o->n; k++)
            if (strcmp(o->option[k]->group, o->option[i]->group) == 0) print_option(out, o->option[k]);
    }
}

bool options_ask_for_help(int argc, char *const *argv) {
    for (int i = 0; i < argc; i++) {
        bool may_be_value = i > 0 && strncmp(argv[i - 1], "--", 2) == 0;
        if (!strcmp(argv[i], "--help") || (!strcmp(argv[i], "-h") && !may_be_value)) return true;
    }
    return false;
}
