/* The part of jansson that writes, for the page. Debian compiles jansson for its own machines only, and the page's
 * commands read no JSON. These functions implement the same header and write the same bytes (json_dumpf with
 * JSON_INDENT). All memory lives until the command ends: nothing is freed. */
#include <jansson.h>

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct node {
    json_t base;                   /* the part that jansson.h declares */
    const char *key;               /* within an object */
    json_int_t integer;
    double real;
    char *text;
    struct node *first, *last, *next;
};

/* A new value, or NULL without memory, as jansson returns it. base is the first member of a node. */
static json_t *node_new(json_type type) {
    struct node *n = calloc(1, sizeof *n);
    if (n) n->base = (json_t){type, 1};
    return (json_t *)n;
}
static struct node *of(const json_t *x) { return (struct node *)x; }

json_t *json_object(void) { return node_new(JSON_OBJECT); }
json_t *json_array(void) { return node_new(JSON_ARRAY); }
json_t *json_null(void) { return node_new(JSON_NULL); }
json_t *json_true(void) { return node_new(JSON_TRUE); }
json_t *json_false(void) { return node_new(JSON_FALSE); }
json_t *json_integer(json_int_t value) {
    json_t *n = node_new(JSON_INTEGER);
    if (n) of(n)->integer = value;
    return n;
}
json_t *json_real(double value) {
    json_t *n = isfinite(value) ? node_new(JSON_REAL) : NULL;
    if (n) of(n)->real = value;
    return n;
}
json_t *json_string(const char *value) {
    char *text = value ? strdup(value) : NULL;
    json_t *n = text ? node_new(JSON_STRING) : NULL;
    if (n) of(n)->text = text;
    return n;
}
void json_delete(json_t *x) { (void)x; }

/* ---- lists ---- */
static int append(json_t *list, const char *key, json_t *value) {
    struct node *l = of(list), *n = of(value);
    if (!l || !n) return -1;
    n->key = key ? strdup(key) : NULL;
    if (l->last) l->last->next = n;
    else l->first = n;
    l->last = n;
    return 0;
}
int json_array_append_new(json_t *list, json_t *value) { return append(list, NULL, value); }
int json_object_set_new(json_t *object, const char *key, json_t *value) { return append(object, key, value); }
/* Move the members of `other` into `object`; the caller must not use `other` again. */
int json_object_update(json_t *object, json_t *other) {
    if (!object || !other) return -1;
    for (struct node *n = of(other)->first, *next; n; n = next) {
        next = n->next, n->next = NULL;
        append(object, n->key, &n->base);
    }
    return 0;
}

/* ---- json_pack: {s:i, s:[I, f], s:o} ---- */
struct format { const char *at; va_list values; };

static char next(struct format *f) {
    while (*f->at && strchr(" ,:", *f->at)) f->at++;
    return *f->at ? *f->at++ : 0;
}

static json_t *pack(struct format *f, char kind) {
    json_t *list = kind == '{' ? json_object() : kind == '[' ? json_array() : NULL;
    switch (kind) {
    case 's': return json_string(va_arg(f->values, const char *));
    case 'i': return json_integer(va_arg(f->values, int));
    case 'I': return json_integer(va_arg(f->values, json_int_t));
    case 'f': return json_real(va_arg(f->values, double));
    case 'b': return va_arg(f->values, int) ? json_true() : json_false();
    case 'o': return va_arg(f->values, json_t *);
    case 'n': return json_null();
    case '{': case '[': break;
    default: return NULL;          /* a format that no command of the page uses: add it here */
    }
    for (char c; (c = next(f)) && !strchr("}]", c);) {
        const char *key = kind == '{' ? va_arg(f->values, const char *) : NULL;
        if (append(list, key, pack(f, key ? next(f) : c))) return NULL;
    }
    return list;
}

json_t *json_pack(const char *format, ...) {
    struct format f = {.at = format};
    va_start(f.values, format);
    json_t *all = pack(&f, next(&f));
    va_end(f.values);
    return all;
}

/* ---- json_dumpf ---- */
static void write_text(const char *text, FILE *f) {
    putc('"', f);
    for (; *text; text++) {
        const char *escape = strchr("\"\\\n\r\t\b\f", *text);
        if (escape) fprintf(f, "\\%c", "\"\\nrtbf"[escape - "\"\\\n\r\t\b\f"]);
        else if ((unsigned char)*text < ' ') fprintf(f, "\\u%04X", *text);
        else putc(*text, f);
    }
    putc('"', f);
}

/* As jansson: 17 digits, a point or an exponent in any case, no + and no leading zero in the exponent. */
static void write_real(double value, FILE *f) {
    char text[64];
    snprintf(text, sizeof text, "%.17g", value);
    char *e = strchr(text, 'e');
    if (!strpbrk(text, ".e")) strcat(text, ".0");
    if (e) {
        char *digits = e + 1 + (e[1] == '-' || e[1] == '+'), *to = e + 1 + (e[1] == '-');
        while (*digits == '0') digits++;
        memmove(to, digits, strlen(digits) + 1);
    }
    fputs(text, f);
}

static void new_line(FILE *f, size_t indent, int depth) {
    if (indent) fprintf(f, "\n%*s", (int)indent * depth, "");
}

static void write_node(const struct node *n, FILE *f, size_t indent, int depth);

static void write_list(const struct node *n, FILE *f, size_t indent, int depth) {
    bool object = n->base.type == JSON_OBJECT;
    putc(object ? '{' : '[', f);
    for (const struct node *x = n->first; x; x = x->next) {
        new_line(f, indent, depth + 1);
        if (object) write_text(x->key, f), fputs(": ", f);
        write_node(x, f, indent, depth + 1);
        if (x->next) fputs(indent ? "," : ", ", f);
    }
    if (n->first) new_line(f, indent, depth);
    putc(object ? '}' : ']', f);
}

static void write_node(const struct node *n, FILE *f, size_t indent, int depth) {
    switch (n->base.type) {
    case JSON_INTEGER: fprintf(f, "%lld", (long long)n->integer); break;
    case JSON_REAL: write_real(n->real, f); break;
    case JSON_STRING: write_text(n->text, f); break;
    case JSON_TRUE: fputs("true", f); break;
    case JSON_FALSE: fputs("false", f); break;
    case JSON_NULL: fputs("null", f); break;
    default: write_list(n, f, indent, depth);
    }
}

int json_dumpf(const json_t *x, FILE *f, size_t flags) {
    if (!x) return -1;
    write_node(of(x), f, flags & JSON_MAX_INDENT, 0);
    return 0;
}
