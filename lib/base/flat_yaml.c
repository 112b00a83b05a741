/* YAML as keys and values, by libyaml. */
#include "lib/base/flat.h"

#include <stdio.h>
#include <string.h>
#include <yaml.h>

enum { DEEPEST = 32 };

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
        TRY(flat_join(name, section, key));
        if (inner->type == YAML_MAPPING_NODE) TRY(add_yaml(f, d, name, inner, depth + 1));
        else if (!value)
            TRY(flat_add(f, section, key, inner->data.sequence.items.top == inner->data.sequence.items.start ? "[]"
                                                                                                      : "[...]"));
        else
            TRY(flat_add(f, section, key,
                         inner->data.scalar.style == YAML_PLAIN_SCALAR_STYLE ? spelled(value) : value));
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
