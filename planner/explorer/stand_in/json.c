/* jansson, for the page: Debian compiles it for its own machines only. These functions implement what the page's
 * commands use of the same header, and write the same bytes. What is no JSON is refused in other words. All memory
 * lives until the command ends: nothing is freed. */
#include <jansson.h>

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct key { struct node *of; char text[]; };

struct node {
    json_t base;                   /* the part that jansson.h declares */
    const char *key;               /* within an object: text of a struct key */
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
static const char *key_of(struct node *n, const char *text) {
    struct key *key = calloc(1, sizeof *key + strlen(text) + 1);
    if (!key) return NULL;
    key->of = n;
    return strcpy(key->text, text);
}
static int append(json_t *list, const char *key, json_t *value) {
    struct node *l = of(list), *n = of(value);
    if (!l || !n || (key && !(n->key = key_of(n, key)))) return -1;
    if (l->last) l->last->next = n;
    else l->first = n;
    l->last = n;
    return 0;
}
int json_array_append_new(json_t *list, json_t *value) { return append(list, NULL, value); }
json_t *json_object_get(const json_t *object, const char *key) {
    for (struct node *n = json_is_object(object) ? of(object)->first : NULL; n; n = n->next)
        if (!strcmp(n->key, key)) return &n->base;
    return NULL;
}
int json_object_del(json_t *object, const char *key) {
    struct node *o = of(object), *before = NULL, *n = of(json_object_get(object, key));
    if (!n) return -1;
    if (o->first != n) for (before = o->first; before->next != n;) before = before->next;
    if (before) before->next = n->next;
    else o->first = n->next;
    if (o->last == n) o->last = before;
    return 0;
}
int json_object_set_new(json_t *object, const char *key, json_t *value) {
    (void)json_object_del(object, key);
    return append(object, key, value);
}
static size_t count(const json_t *list) {
    size_t n = 0;
    for (const struct node *x = list ? of(list)->first : NULL; x; x = x->next) n++;
    return n;
}
size_t json_object_size(const json_t *object) { return json_is_object(object) ? count(object) : 0; }
size_t json_array_size(const json_t *array) { return json_is_array(array) ? count(array) : 0; }
json_t *json_array_get(const json_t *array, size_t i) {
    struct node *n = json_is_array(array) ? of(array)->first : NULL;
    while (n && i--) n = n->next;
    return n ? &n->base : NULL;
}
/* An iterator is the member itself. */
void *json_object_iter(json_t *object) { return json_is_object(object) ? of(object)->first : NULL; }
void *json_object_iter_next(json_t *object, void *iter) {
    (void)object;
    return iter ? ((struct node *)iter)->next : NULL;
}
const char *json_object_iter_key(void *iter) { return iter ? ((struct node *)iter)->key : NULL; }
json_t *json_object_iter_value(void *iter) { return iter; }
void *json_object_key_to_iter(const char *key) {
    return key ? ((struct key *)(key - offsetof(struct key, text)))->of : NULL;
}

/* ---- values ---- */
const char *json_string_value(const json_t *x) { return json_is_string(x) ? of(x)->text : NULL; }
size_t json_string_length(const json_t *x) { return json_is_string(x) ? strlen(of(x)->text) : 0; }
json_int_t json_integer_value(const json_t *x) { return json_is_integer(x) ? of(x)->integer : 0; }
double json_real_value(const json_t *x) { return json_is_real(x) ? of(x)->real : 0; }
double json_number_value(const json_t *x) { return json_is_integer(x) ? (double)of(x)->integer : json_real_value(x); }

int json_equal(const json_t *a, const json_t *b) {
    if (!a || !b || a->type != b->type || count(a) != count(b)) return 0;
    if (json_is_string(a)) return !strcmp(of(a)->text, of(b)->text);
    for (struct node *x = of(a)->first, *y = of(b)->first; x; x = x->next, y = y->next)
        if (!json_equal(&x->base, x->key ? json_object_get(b, x->key) : &y->base)) return 0;
    return of(a)->integer == of(b)->integer && of(a)->real == of(b)->real;
}
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
static void write_real(double value, size_t flags, FILE *f) {
    char text[64];
    int digits_of = (int)(flags >> 11) & 31;             /* JSON_REAL_PRECISION */
    snprintf(text, sizeof text, "%.*g", digits_of ? digits_of : 17, value);
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

static void write_node(const struct node *n, FILE *f, size_t flags, int depth);

static void write_list(const struct node *n, FILE *f, size_t flags, int depth) {
    bool object = n->base.type == JSON_OBJECT;
    size_t indent = flags & JSON_MAX_INDENT;
    putc(object ? '{' : '[', f);
    for (const struct node *x = n->first; x; x = x->next) {
        new_line(f, indent, depth + 1);
        if (object) write_text(x->key, f), fputs(": ", f);
        write_node(x, f, flags, depth + 1);
        if (x->next) fputs(indent ? "," : ", ", f);
    }
    if (n->first) new_line(f, indent, depth);
    putc(object ? '}' : ']', f);
}

static void write_node(const struct node *n, FILE *f, size_t flags, int depth) {
    switch (n->base.type) {
    case JSON_INTEGER: fprintf(f, "%lld", (long long)n->integer); break;
    case JSON_REAL: write_real(n->real, flags, f); break;
    case JSON_STRING: write_text(n->text, f); break;
    case JSON_TRUE: fputs("true", f); break;
    case JSON_FALSE: fputs("false", f); break;
    case JSON_NULL: fputs("null", f); break;
    default: write_list(n, f, flags, depth);
    }
}

int json_dumpf(const json_t *x, FILE *f, size_t flags) {
    if (!x) return -1;
    write_node(of(x), f, flags, 0);
    return 0;
}

char *json_dumps(const json_t *x, size_t flags) {
    char *text = NULL;
    size_t n;
    FILE *f = x ? open_memstream(&text, &n) : NULL;
    if (f) json_dumpf(x, f, flags), fclose(f);
    return text;
}

/* ---- json_loadb ---- */
enum { DEEPEST = 2048 };
struct text { const char *at, *end, *why; int line; bool unique; };

static json_t *fail(struct text *t, const char *why) {
    if (!t->why) t->why = why;
    return NULL;
}
static char peek(struct text *t) {
    while (t->at < t->end && strchr(" \t\r\n", *t->at) && *t->at) t->line += *t->at++ == '\n';
    return t->at < t->end ? *t->at : 0;
}
static bool take(struct text *t, const char *word) {
    size_t n = strlen(word);
    (void)peek(t);
    bool there = (size_t)(t->end - t->at) >= n && !memcmp(t->at, word, n);
    if (there) t->at += n;
    return there;
}

/* Four hexadecimal digits; -1: they are not. */
static int read_unit(struct text *t) {
    char digits[5] = "", *end = digits;
    if (t->end - t->at >= 4) memcpy(digits, t->at, 4);
    long unit = strtol(digits, &end, 16);
    if (end != digits + 4 || strspn(digits, " +-")) return -1;
    t->at += 4;
    return (int)unit;
}

static char *put_utf8(char *to, unsigned code) {
    int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *to++ = (char)(more ? (0xff00 >> (more + 1) & 0xff) | code >> 6 * more : code);
    while (more--) *to++ = (char)(0x80 | (code >> 6 * more & 63));
    return to;
}

static char *read_escape(struct text *t, char *to) {
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char c = t->at < t->end ? *t->at++ : 0, *found = c ? strchr(letters, c) : NULL;
    if (found) return *to = values[found - letters], to + 1;
    int unit = c == 'u' ? read_unit(t) : -1, low = 0;
    bool pair = unit >= 0xd800 && unit < 0xdc00;
    if (pair && t->end - t->at >= 2 && t->at[0] == '\\' && t->at[1] == 'u') t->at += 2, low = read_unit(t);
    if (unit <= 0 || (pair ? low < 0xdc00 || low > 0xdfff : unit >= 0xdc00 && unit < 0xe000)) return NULL;
    return put_utf8(to, pair ? 0x10000 + (((unsigned)unit - 0xd800) << 10) + ((unsigned)low - 0xdc00) : (unsigned)unit);
}

static char *read_string(struct text *t) {               /* behind the first quote */
    const char *end = t->at;
    while (end < t->end && *end != '"') end += 1 + (*end == '\\' && end + 1 < t->end);
    char *out = malloc((size_t)(end - t->at) + 1), *to = out;
    while (to && t->at < end) {
        char c = *t->at++;
        if ((unsigned char)c < ' ') to = NULL;
        else if (c == '\\') to = read_escape(t, to);
        else *to++ = c;
    }
    if (to && end < t->end) return t->at++, *to = 0, out;
    return fail(t, out ? "invalid string" : "no memory"), NULL;
}

static json_t *read_number(struct text *t) {
    const char *c = t->at;
    bool real = false;
    c += *c == '-';
    size_t digits = strspn(c, "0123456789");
    if (!digits || (*c == '0' && digits > 1)) return fail(t, "invalid token");
    c += digits;
    if (*c == '.') real = true, digits = strspn(c + 1, "0123456789"), c += 1 + digits;
    if (digits && (*c == 'e' || *c == 'E')) {
        real = true, c += 1 + (c[1] == '+' || c[1] == '-');
        digits = strspn(c, "0123456789"), c += digits;
    }
    errno = 0;
    json_t *x = !digits ? NULL : real ? json_real(strtod(t->at, NULL)) : json_integer(strtoll(t->at, NULL, 10));
    if (!real && errno == ERANGE) x = NULL;
    t->at = c;
    return x ? x : fail(t, "invalid number");
}

static json_t *read_value(struct text *t, int depth);

static json_t *read_list(struct text *t, bool object, int depth) {
    json_t *list = object ? json_object() : json_array(), *x;
    const char *end = object ? "}" : "]";
    if (take(t, end)) return list;
    do {
        char *key = NULL;
        if (object && (!take(t, "\"") || !(key = read_string(t)) || !take(t, ":"))) return fail(t, "key: expected");
        if (object && t->unique && json_object_get(list, key)) return fail(t, "duplicate object key");
        if (!(x = read_value(t, depth + 1))) return NULL;
        if (object ? json_object_set_new(list, key, x) : append(list, NULL, x)) return fail(t, "no memory");
    } while (take(t, ","));
    return take(t, end) ? list : fail(t, object ? "'}' expected" : "']' expected");
}

static json_t *read_value(struct text *t, int depth) {
    char c = peek(t);
    if (depth > DEEPEST) return fail(t, "maximum parsing depth reached");
    if (take(t, "{")) return read_list(t, true, depth);
    if (take(t, "[")) return read_list(t, false, depth);
    if (take(t, "true")) return json_true();
    if (take(t, "false")) return json_false();
    if (take(t, "null")) return json_null();
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(t);
    char *text = take(t, "\"") ? read_string(t) : NULL;
    return text ? json_string(text) : fail(t, "unexpected token");
}

json_t *json_loads(const char *text, size_t flags, json_error_t *why) {
    struct text t = {text, text + strlen(text), NULL, 1, (flags & JSON_REJECT_DUPLICATES) != 0};
    bool any = flags & JSON_DECODE_ANY || strchr("{[", peek(&t));
    json_t *x = any ? read_value(&t, 0) : fail(&t, "'[' or '{' expected");
    if (x && peek(&t)) x = fail(&t, "end of file expected");
    if (!x && why) snprintf(why->text, sizeof why->text, "%s", t.why), why->line = t.line;
    return x;
}
/* Numbers end at a byte that is none, if only at the last. */
json_t *json_loadb(const char *bytes, size_t n, size_t flags, json_error_t *why) {
    char *text = strndup(bytes, n);
    return text ? json_loads(text, flags, why) : NULL;
}
