/* JSON, TOML and YAML as keys and values; flat_shell.c has launch scripts. TOML is the part of it that configurations
 * are written in: no dates, no tables in a line, no arrays of tables. */
#include "lib/base/flat.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 32 };

const char *flat_value(const struct flat *f, const char *key) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->at[i].key, key)) return f->at[i].value;
    return NULL;
}

void flat_fini(struct flat *f) {
    free(f->at);
    *f = (struct flat){0};
}

static enum status join(char out[FLAT_KEY], const char *section, const char *key) {
    int n = snprintf(out, FLAT_KEY, "%s%s%s", section, *section ? "." : "", key);
    return n < FLAT_KEY ? OK : FAIL(E_FORMAT, "the key %.60s... has %d bytes; the limit is %d", out, n, FLAT_KEY - 1);
}

static enum status add(struct flat *f, const char *section, const char *key, const char *value) {
    if (f->n == f->room) {
        int room = 2 * f->room + 64;
        struct flat_pair *at = realloc(f->at, (size_t)room * sizeof *at);
        if (!at) return FAIL(E_MEMORY, "no memory for %d keys", room);
        f->at = at, f->room = room;
    }
    struct flat_pair *p = &f->at[f->n++];
    snprintf(p->value, sizeof p->value, "%s", value);
    return join(p->key, section, key);
}

/* ---- JSON ---- */

static enum status add_json(struct flat *f, const char *section, const json_t *x) {
    const char *key;
    const json_t *value;
    json_object_foreach((json_t *)x, key, value) {
        char inner[FLAT_KEY];
        TRY(join(inner, section, key));
        if (json_is_object(value)) {
            TRY(add_json(f, inner, value));
            continue;
        }
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
        enum status status = add(f, section, key, json_is_string(value) ? json_string_value(value) : text ? text : "");
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
            TRY(add(out, section, key, list));
            *list = 0;
        } else if (!*line) {
            continue;
        } else if (*line == '[' && line[1] != '[' && strchr(line, ']')) {
            snprintf(section, sizeof section, "%.*s", (int)strcspn(line + 1, "]"), line + 1);
        } else if ((equals = strchr(line, '=')) && (*equals = 0, *trim(line)) && *line != '[') {
            value = trim(equals + 1);
            snprintf(key, sizeof key, "%s", trim(line));
            if (*value == '[' && !strchr(value, ']')) snprintf(list, sizeof list, "%s", value);
            else if (is_value(&value)) TRY(add(out, section, key, value));
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

/* ---- YAML ---- */

static const char *scalar(yaml_document_t *d, int node) {
    yaml_node_t *x = yaml_document_get_node(d, node);
    return x && x->type == YAML_SCALAR_NODE ? (const char *)x->data.scalar.value : NULL;
}

/* A value without quotes as this program spells it: YAML 1.1 has many words for true, false and null. */
static const char *spelled(const char *text) {
    static const char *const same[][2] = {{"True", "true"}, {"TRUE", "true"}, {"yes", "true"}, {"on", "true"},
                                          {"False", "false"}, {"FALSE", "false"}, {"no", "false"}, {"off", "false"},
                                          {"~", "null"}, {"", "null"}, {"None", "null"}, {"Null", "null"}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (!strcmp(text, same[i][0])) return same[i][1];
    static char plain[FLAT_VALUE];                                 /* 70_000 is a number */
    size_t n = 0;
    if (!strchr(text, '_') || text[strspn(text, "0123456789_")] || *text == '_' || strlen(text) >= sizeof plain)
        return text;
    for (const char *c = text; *c; c++)
        if (*c != '_') plain[n++] = *c;
    plain[n] = 0;
    return plain;
}

static enum status add_yaml(struct flat *f, yaml_document_t *d, const char *section, const yaml_node_t *x, int depth) {
    if (depth > DEEPEST) return FAIL(E_FORMAT, "%s is an object in more than %d others", section, DEEPEST);
    for (yaml_node_pair_t *p = x->data.mapping.pairs.start; p < x->data.mapping.pairs.top; p++) {
        const char *key = scalar(d, p->key), *value = scalar(d, p->value);
        const yaml_node_t *inner = yaml_document_get_node(d, p->value);
        char name[FLAT_KEY];
        if (!key || !inner) continue;
        TRY(join(name, section, key));
        if (inner->type == YAML_MAPPING_NODE) TRY(add_yaml(f, d, name, inner, depth + 1));
        else if (!value) TRY(add(f, section, key, inner->data.sequence.items.top == inner->data.sequence.items.start ?
                                 "[]" : "[...]"));
        else TRY(add(f, section, key, inner->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? spelled(value) : value));
    }
    return OK;
}

enum status flat_yaml(const char *path, const char *text, struct flat *out) {
    yaml_parser_t parser;
    yaml_document_t d;
    if (!yaml_parser_initialize(&parser)) return FAIL(E_MEMORY, "no memory to read %s", path);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    enum status status = OK;
    if (!yaml_parser_load(&parser, &d)) {
        status = FAIL(E_FORMAT, "%s:%zu: not YAML: %s", path, parser.problem_mark.line + 1, parser.problem);
    } else {
        const yaml_node_t *root = yaml_document_get_root_node(&d);
        if (root && root->type == YAML_MAPPING_NODE) status = add_yaml(out, &d, "", root, 0);
        yaml_document_delete(&d);
    }
    yaml_parser_delete(&parser);
    return status;
}
