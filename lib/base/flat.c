/* JSON and TOML as keys and values; flat_yaml.c has YAML, flat_shell.c launch scripts. TOML is the part of it that
 * configurations are written in: no dates, no tables in a line, no arrays of tables. */
#include "lib/base/flat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *flat_value(const struct flat *f, const char *key) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->at[i].key, key)) return f->at[i].value;
    return NULL;
}

void flat_fini(struct flat *f) {
    free(f->at);
    *f = (struct flat){0};
}

enum status flat_join(char out[FLAT_KEY], const char *section, const char *key) {
    int n = snprintf(out, FLAT_KEY, "%s%s%s", section, *section ? "." : "", key);
    return n < FLAT_KEY ? OK : FAIL(E_FORMAT, "the key %.60s... has %d bytes; the limit is %d", out, n, FLAT_KEY - 1);
}

enum status flat_add(struct flat *f, const char *section, const char *key, const char *value) {
    if (f->n == f->room) {
        int room = 2 * f->room + 64;
        struct flat_pair *at = realloc(f->at, (size_t)room * sizeof *at);
        if (!at) return FAIL(E_MEMORY, "no memory for %d keys", room);
        f->at = at, f->room = room;
    }
    struct flat_pair *p = &f->at[f->n++];
    snprintf(p->value, sizeof p->value, "%s", value);
    return flat_join(p->key, section, key);
}

/* ---- JSON ---- */

static enum status add_json(struct flat *f, const char *section, const json_t *x) {
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)x, key, value) {
        char inner[FLAT_KEY];
        TRY(flat_join(inner, section, key));
        if (json_is_object(value)) {
            TRY(add_json(f, inner, value));
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
        const char *said = json_is_string(value) ? json_string_value(value) : text;
        enum status status = flat_add(f, section, key, said ? said : "");
        free(text);
        TRY(status);
    }
    return OK;
}
enum status flat_json(const json_t *x, struct flat *out) { return add_json(out, "", x); }

/* ---- TOML ---- */

/* End the line before its comment, and cut blanks at both ends. */
static char *trim(char *line) {
    char quote = 0;
    for (char *c = line; *c; c++) {
        if (quote ? *c == quote : *c == '"' || *c == '\'') quote = quote ? 0 : *c;
        else if (!quote && *c == '#') *c = 0, c--;
    }
    line += strspn(line, " \t\r");
    size_t n = strlen(line);
    while (n > 0 && strchr(" \t\r", line[n - 1])) line[--n] = 0;
    return line;
}

/* Is it a text in quotes, a list, a number or true or false? Then *value is it without its quotes. */
static bool is_value(char **value) {
    size_t n = strlen(*value);
    char *v = *value;
    if (n >= 2 && (*v == '"' || *v == '\'') && v[n - 1] == *v && strchr(v + 1, *v) == v + n - 1) {
        v[n - 1] = 0, ++*value;
        return true;
    }
    char *end, *to = v;
    for (char *c = v; (*v == '-' || (*v >= '0' && *v <= '9')) && *c; c++)     /* 2_000 is a number */
        if (*c != '_') *to++ = *c;
    if (to != v) *to = 0, n = (size_t)(to - v);
    (void)strtod(v, &end);
    return n && (!strcmp(v, "true") || !strcmp(v, "false") || !*end || (*v == '[' && v[n - 1] == ']'));
}

static enum status read_toml(const char *path, char *text, struct flat *out) {
    char section[FLAT_KEY] = "", *next = text, list[4096] = "", key[FLAT_KEY] = "";
    for (int number = 1; next && *next; number++) {
        char *line = next, *equals, *value;
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        line = trim(line);
        if (*list) {                                               /* a list over lines */
            size_t used = strlen(list);
            snprintf(list + used, sizeof list - used, "%s", line);
            if (!strchr(line, ']')) continue;
            TRY(flat_add(out, section, key, list));
            *list = 0;
        } else if (!*line) {
            continue;
        } else if (*line == '[' && line[1] != '[' && strchr(line, ']')) {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
        } else if ((equals = strchr(line, '=')) && (*equals = 0, *trim(line)) && *line != '[') {
            value = trim(equals + 1);
            snprintf(key, sizeof key, "%s", trim(line));
            if (*value == '[' && !strchr(value, ']')) snprintf(list, sizeof list, "%s", value);
            else if (is_value(&value)) TRY(flat_add(out, section, key, value));
            else return FAIL(E_FORMAT, "%s:%d: %s is \"%.60s\", which is no text, number, list, true or false", path,
                             number, key, value);
        } else return FAIL(E_FORMAT, "%s:%d: \"%.60s\" is no [section] and no key = value", path, number, line);
    }
    return *list ? FAIL(E_FORMAT, "%s: the list of %s has no end", path, key) : OK;
}

enum status flat_toml(const char *path, const char *text, struct flat *out) {
    char *copy = strdup(text);
    enum status status = copy ? read_toml(path, copy, out) : FAIL(E_MEMORY, "no memory to read %s", path);
    free(copy);
    return status;
}
