/* The joined tables, precedence, and the command line. */
#include "lib/base/configs.h"
#include "lib/base/option_private.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *field_of(const struct options *o, int index) {
    return (char *)o->target + o->option[index]->at;
}

int option_find(const struct options *o, const char *name, size_t length) {
    for (int i = 0; i < o->n; i++)
        if (strlen(o->option[i]->name) == length && memcmp(o->option[i]->name, name, length) == 0) return i;
    return -1;
}

/* ---- making the joined table ---- */

static enum status set_default(struct options *o, int index) {
    const struct option *option = o->option[index];
    void *field = field_of(o, index);
    union option_value value;
    if (option->initial) {
        if (option_read_value(option, option->initial, option->name, &value) != OK)
            return FAIL(E_INTERNAL, "the default of --%s breaks its own limits: %s", option->name, status_text());
    } else {
        memset(&value, 0, sizeof value);
    }
    option_store(option, &value, field);
    return OK;
}

static enum status join(struct options *o, const struct option_table *tables, int n_tables) {
    for (int t = 0; t < n_tables; t++)
        for (int i = 0; i < tables[t].n; i++) {
            const struct option *option = &tables[t].option[i];
            if (option_find(o, option->name, strlen(option->name)) >= 0)
                return FAIL(E_INTERNAL, "two options are called --%s; rename one of them", option->name);
            o->option[o->n] = option;
            o->source[o->n++] = FROM_DEFAULT;
            TRY(set_default(o, o->n - 1));
        }
    return OK;
}

/* Room for n options; on failure *out is NULL. */
static enum status make(size_t n, void *target, struct options **out) {
    struct options *o = *out = calloc(1, sizeof *o);
    if (o) o->target = target;
    if (o) o->option = calloc(n + 1, sizeof *o->option);             /* n may be 0 */
    if (o) o->source = calloc(n + 1, sizeof *o->source);
    if (o && o->option && o->source) return OK;
    options_destroy(out);
    return FAIL(E_MEMORY, "no memory for %zu options", n);
}

enum status options_create(const struct option_table *tables, int n_tables, void *target, struct options **out) {
    size_t n = 0;
    for (int t = 0; t < n_tables; t++) n += (size_t)tables[t].n;
    TRY(make(n, target, out));
    enum status status = join(*out, tables, n_tables);
    if (status != OK) options_destroy(out);
    return status;
}

enum status options_copy(const struct options *from, void *target, struct options **out) {
    TRY(make((size_t)from->n, target, out));
    (*out)->n = from->n;
    memcpy((*out)->option, from->option, (size_t)from->n * sizeof *from->option);
    memcpy((*out)->source, from->source, (size_t)from->n * sizeof *from->source);
    return OK;
}

void options_destroy(struct options **options) {
    struct options *o = *options;
    if (!o) return;
    free(o->option);
    free(o->source);
    free(o);
    *options = NULL;
}

/* ---- setting values ---- */

/* The setting in the user's spelling, so that the error shows the text to look for and its file and line. */
static void show(const struct options *o, const char *name, const char *text, enum option_source source, char *shown,
                 size_t size) {
    if (o->file) snprintf(shown, size, "%s:%d: %s = %s", o->file, o->line, name, text);
    else if (source == FROM_COMMAND_LINE) snprintf(shown, size, "--%s %s", name, text);
    else snprintf(shown, size, "%s = %s", name, text);
}

enum status option_assign(struct options *o, int index, const char *text, enum option_source source) {
    const struct option *option = o->option[index];
    char shown[OPTION_TEXT_MAX + 256];
    show(o, option->name, text, source, shown, sizeof shown);
    union option_value value; /* checked even if a stronger source wins: a wrong line in a file is an error */
    char joined[2 * OPTION_TEXT_MAX];
    if (option->type == OPTION_TEXT && option->choices && source == FROM_COMMAND_LINE && o->source[index] == source) {
        snprintf(joined, sizeof joined, "%s" OPTION_LIST "%s", (const char *)field_of(o, index), text);
        text = joined;
    }
    TRY(option_read_value(option, text, shown, &value));
    if (source < o->source[index]) return OK;
    o->source[index] = source;
    option_store(option, &value, field_of(o, index));
    return OK;
}

enum status option_unknown(const struct options *o, const char *name, size_t length, enum option_source source) {
    char word[64], place[OPTION_TEXT_MAX] = "";
    snprintf(word, sizeof word, "%.*s", (int)(length < 63 ? length : 63), name);
    if (o->file) snprintf(place, sizeof place, "%s:%d: ", o->file, o->line);
    if (o->file && !strcmp(word, "config"))
        return FAIL(E_USAGE, "%sconfig is an option of the command line; give several files there, as in "
                    "--config a --config b", place);
    const char *dashes = source == FROM_COMMAND_LINE ? "--" : "", *nearest = option_nearest(o, word);
    if (nearest)
        return FAIL(E_USAGE, "%sunknown option %s%s; did you mean %s%s?", place, dashes, word, dashes, nearest);
    return FAIL(E_USAGE, "%sunknown option %s%s; --help lists all of them", place, dashes, word);
}

enum status options_set(struct options *o, const char *name, const char *value, enum option_source source) {
    int index = option_find(o, name, strlen(name));
    if (index < 0) return option_unknown(o, name, strlen(name), source);
    return option_assign(o, index, value, source);
}

/* ---- the command line ---- */

/* The text after '=', or the next word unless that word begins with "--". NULL: the option has no value. */
static const char *value_of(const char *after_name, int argc, char *const *argv, int *i) {
    if (*after_name == '=') return after_name + 1;
    if (*i + 1 < argc && strncmp(argv[*i + 1], "--", 2) != 0) return argv[++*i];
    return NULL;
}

const char *options_peek(int argc, char *const *argv, const char *name) {
    const size_t n = strlen(name);
    const char *value = NULL;
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0 || strncmp(argv[i] + 2, name, n) != 0) continue;
        const char *after = argv[i] + 2 + n;
        if (!*after || *after == '=') value = value_of(after, argc, argv, &i);
    }
    return value;
}

static enum status missing_value(const struct option *option) {
    char limits[512];
    option_print_limits(option, limits, sizeof limits);
    return FAIL(E_USAGE, "--%s has no value; use %s", option->name, limits);
}

enum status options_parse(struct options *o, int argc, char *const *argv) {
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0)
            return FAIL(E_USAGE, "%s is not an option; options are written --name value", argv[i]);
        const char *name = argv[i] + 2;
        size_t length = strcspn(name, "=");
        bool config = length == 6 && memcmp(name, "config", 6) == 0;
        int index = option_find(o, name, length);
        if (index < 0 && !config) return option_unknown(o, name, length, FROM_COMMAND_LINE);
        const char *value = value_of(name + length, argc, argv, &i);
        if (config) {
            if (!value || !*value) return FAIL(E_USAGE, "--config has no value; name an ini file");
            char path[PATH_MAX], installed[PATH_MAX];
            snprintf(path, sizeof path, "%s.ini", value);
            bool found = !strpbrk(value, "/.") && access(value, R_OK) &&
                         configs_find(path, installed, sizeof installed);
            TRY(options_read_file(o, found ? installed : value));
            continue;
        }
        if (!value && o->option[index]->type != OPTION_BOOL) return missing_value(o->option[index]);
        TRY(option_assign(o, index, value ? value : "on", FROM_COMMAND_LINE));
    }
    return OK;
}

/* ---- asking ---- */

enum option_source options_source(const struct options *o, const char *name) {
    int index = option_find(o, name, strlen(name));
    return index < 0 ? FROM_DEFAULT : o->source[index];
}

void options_each(const struct options *o,
                  void (*visit)(void *, const struct option *, const char *, enum option_source), void *self) {
    for (int i = 0; i < o->n; i++) {
        char text[OPTION_TEXT_MAX + 64];                             /* "file:" and a path */
        option_print_value(o->option[i], field_of(o, i), text, sizeof text);
        visit(self, o->option[i], text, o->source[i]);
    }
}
