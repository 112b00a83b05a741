/* The options of the program that a launch script starts, as a shell would expand them. A running shell's own
 * values (its arguments, other programs' output, what is assigned under a condition) keep their $, and no key takes
 * such a value. A script is read as if it were started without arguments: $@ is empty. */
#include "lib/base/flat.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VARIABLES = 256, MOST_TEXT = 16384 };

struct shell {
    const char *path, *at;                 /* what is still to be read */
    int n, depth;                          /* depth: of if, for, case and functions */
    struct variable { char name[64], text[MOST_TEXT]; } *variable;
    char statement[MOST_TEXT], words[MOST_TEXT], started[MOST_TEXT];
    int n_started;
};

static struct variable *find(struct shell *s, const char *name, size_t n) {
    for (int i = 0; i < s->n; i++)
        if (strlen(s->variable[i].name) == n && !memcmp(s->variable[i].name, name, n)) return &s->variable[i];
    return NULL;
}

static void put(char out[MOST_TEXT], const char *text, size_t n) {
    size_t used = strlen(out);
    if (used + n < MOST_TEXT) memcpy(out + used, text, n), out[used + n] = 0;
}

/* Expand what follows a $ at `at`; return the character after it. */
static const char *expand_one(struct shell *s, const char *at, char out[MOST_TEXT]) {
    const char *begin = at, *name = at + 1, *end;
    bool braces = *name == '{';
    name += braces;
    size_t n = 0;
    while (isalnum((unsigned char)name[n]) || name[n] == '_') n++;
    const struct variable *v = n ? find(s, name, n) : NULL;
    if (!braces && !n) {                                           /* $( ), $@, $1 is a name */
        put(out, begin, 1);
        return at + 1;
    }
    end = braces ? strchr(name, '}') : name + n;
    if (!end) end = name + n;
    const char *rest = name + n;
    bool whole = !braces || rest == end || !strncmp(rest, "[@]}", 4) || !strncmp(rest, "[*]}", 4);
    bool usual = braces && (!strncmp(rest, ":-", 2) || !strncmp(rest, ":=", 2));
    if (v && (whole || (usual && *v->text))) put(out, v->text, strlen(v->text));
    else if (usual && isdigit((unsigned char)*name)) put(out, begin, (size_t)(end + 1 - begin));
    else if (usual && !strchr(rest + 2, '$')) put(out, rest + 2, (size_t)(end - rest - 2));
    else put(out, begin, (size_t)(end + braces - begin));
    return end + braces;
}

/* Words without quotes. Within '' nothing is expanded. */
static void expand(struct shell *s, const char *text, char out[MOST_TEXT]) {
    bool single = false, twice = false;
    *out = 0;
    for (const char *c = text; *c;) {
        if (*c == '\'' && !twice) single = !single, c++;
        else if (*c == '"' && !single) twice = !twice, c++;
        else if (*c == '\\' && c[1] && !single) put(out, c + 1, 1), c += 2;
        else if (*c == '$' && !single) c = expand_one(s, c, out);
        else put(out, c++, 1);
    }
}

/* Read to the end of a statement: a newline, ;, &, | outside of quotes and brackets. Comments and continued lines are
 * joined. @return the character that ended it */
static char next_statement(struct shell *s) {
    char quote = 0, before = '\n';
    int brackets = 0;
    s->statement[0] = 0;
    for (const char *c = s->at; *c; before = *c++) {
        if (*c == '\\' && c[1] == '\n') { put(s->statement, " ", 1), c++; continue; }
        if (*c == '\\' && c[1]) { put(s->statement, c, 2), c++; continue; }
        if (!quote && *c == '#' && strchr(" \t\n(;", before)) { c += strcspn(c, "\n") - 1; continue; }
        if (quote ? *c == quote : *c == '"' || *c == '\'' || *c == '`') quote = quote ? 0 : *c;
        else if (!quote && *c == '(') brackets++;
        else if (!quote && *c == ')') brackets--;
        else if (!quote && brackets <= 0 && strchr("\n;&|", *c) && !(*c == '&' && (before == '>' || c[1] == '>'))) {
            s->at = c + 1 + (c[1] == *c && *c != '\n');
            return c[1] == *c && *c != '\n' && *c != ';' ? '?' : *c;
        }
        put(s->statement, *c == '\n' || *c == '\t' ? " " : c, 1);
    }
    s->at = "";
    return 0;
}

/* What a condition decides: options keep their names and have the value $NAME; any other text is $NAME. */
static void put_conditional(struct variable *v, char *words) {
    char *save, one[FLAT_KEY + sizeof v->name];
    for (char *w = strtok_r(words, " ", &save), *first = w; w; w = strtok_r(NULL, " ", &save)) {
        bool option = !strncmp(w, "--", 2);
        if (!option && w != first) continue;
        snprintf(one, sizeof one, " %.*s%s$%s", option ? (int)strcspn(w, "=") : 0, w, option ? "=" : "", v->name);
        put(v->text, one, strlen(one));
    }
}

/* NAME=text, NAME+=text, NAME=(words). Under a condition it is a running shell's value. */
static bool assign(struct shell *s, const char *text, bool conditional) {
    static const char *const before[] = {"export ", "readonly ", "local ", "declare "};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        if (!strncmp(text, before[i], strlen(before[i]))) text += strlen(before[i]);
    size_t n = 0;
    while (isalnum((unsigned char)text[n]) || text[n] == '_') n++;
    bool more = text[n] == '+' && text[n + 1] == '=';
    if (!n || (!more && text[n] != '=')) return false;
    struct variable *v = find(s, text, n);
    const char *value = text + n + 1 + more;
    bool list = *value == '(';
    if (!v && (s->n == MOST_VARIABLES || n >= sizeof v->name)) return true;
    expand(s, value + list, s->words);
    for (size_t last = strlen(s->words); last > 0 && s->words[last - 1] == ' ';) s->words[--last] = 0;
    if (!v) {
        v = &s->variable[s->n++];
        *v = (struct variable){.name = ""};
        memcpy(v->name, text, n);
    }
    char *close = list ? strrchr(s->words, ')') : NULL;
    if (close) *close = 0;
    if (!list && !strchr("\"'", *value) && strchr(s->words, ' ')) return false;   /* NAME=1 program */
    char *added = s->words;
    size_t before_it = strlen(v->text);
    bool adds = conditional && before_it && !strncmp(added, v->text, before_it);   /* A="$A more" */
    if (adds) added += before_it;
    else if (conditional && !more) put(s->words, " ", 1), put(s->words, v->text, before_it);   /* either of them */
    if (!more && !adds) v->text[0] = 0;
    if (more) put(v->text, " ", 1);
    if (conditional) put_conditional(v, added);
    else put(v->text, added, strlen(added));
    return true;
}

static bool is_start(const char *words) {
    return strstr(words, "--num-layers") || strstr(words, "--micro-batch-size") ||
           strstr(words, "--tensor-model-parallel-size");
}

static bool begins(const char *text, const char *word) {
    size_t n = strlen(word);
    return !strncmp(text, word, n) && (!text[n] || strchr(" \t(", text[n]));
}

static void run(struct shell *s, bool conditional) {
    const char *text = s->statement + strspn(s->statement, " \t{");
    static const char *const opens[] = {"if", "for", "while", "until", "case"},
                      *const in[] = {"then", "else", "do", "elif"};
    for (size_t i = 0; i < sizeof opens / sizeof *opens; i++) s->depth += begins(text, opens[i]);
    if (begins(text, "fi") || begins(text, "done") || begins(text, "esac")) s->depth -= s->depth > 0;
    for (size_t i = 0; i < sizeof in / sizeof *in; i++)
        if (begins(text, in[i])) text += strlen(in[i]), text += strspn(text, " \t");
    if (begins(text, "echo") || begins(text, "printf") || begins(text, "cat") || begins(text, "mkdir")) return;
    if (assign(s, text, conditional || s->depth > 0)) return;
    expand(s, text, s->words);
    if (is_start(s->words) && s->n_started++ == 0) snprintf(s->started, sizeof s->started, "%s", s->words);
}

/* A file that only sets variables, for others to read. */
static void start_from_variable(struct shell *s) {
    for (int i = 0; i < s->n; i++)
        if (is_start(s->variable[i].text) && s->n_started++ == 0)
            snprintf(s->started, sizeof s->started, "%s", s->variable[i].text);
}

static const char *text_of(const json_t *all, const char *key) {
    return json_string_value(json_object_get(all, key));
}

/* A key with two values has none. */
static void compare_twice(json_t *all) {
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(all, next, key, value) {
        char first[FLAT_KEY];
        size_t n = strlen(key);
        if (n < 6 || strcmp(key + n - 6, " again")) continue;
        snprintf(first, sizeof first, "%.*s", (int)(n - 6), key);
        bool other = strcmp(json_string_value(value), text_of(all, first)) != 0;
        if (other) json_object_set_new(all, first, json_string("$twice"));
        json_object_del(all, key);
    }
}

/* A file that output goes to: >file, or > file; then the next word is a part of it. */
static bool is_redirection(const char *word, bool *next) {
    bool was = *next;
    size_t digits = strspn(word, "&12");
    *next = word[digits] == '>' && !word[digits + strspn(word + digits, ">")];
    return was || word[digits] == '>';
}

/* What comes before the program is the launcher's: of that, only the number of processes is of interest. */
static void leave_launcher_out(json_t *all) {
    static const char *const kept[] = {"nproc_per_node", "nproc-per-node", "nnodes", "num_gpus", "num_nodes"};
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(all, next, key, value) {
        bool keep = false;
        for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) keep |= !strcmp(key, kept[i]);
        if (!keep) json_object_del(all, key);
    }
}

/* "--key value value": a pair. The program's name is the value of "program". */
static enum status add_words(struct shell *s, struct flat *out) {
    json_t *all = json_object();
    char *save, key[FLAT_KEY] = "", joined[2 * FLAT_VALUE];
    bool to_file = false;
    for (char *w = strtok_r(s->started, " \t", &save); w && all; w = strtok_r(NULL, " \t", &save)) {
        const char *said = text_of(all, key), *value = strchr(w, '='), *slash = strrchr(w, '/'),
                   *name = slash ? slash + 1 : w;
        size_t n = strlen(name);
        if (is_redirection(w, &to_file) || !strcmp(w, "$@") || !strcmp(w, "$*")) continue;
        if (!strncmp(w, "--", 2)) {
            int length = value ? (int)(value - w - 2) : FLAT_KEY - 8;
            snprintf(key, sizeof key, "%.*s", length < FLAT_KEY - 8 ? length : FLAT_KEY - 8, w + 2);
            if (json_object_get(all, key)) strcat(key, " again");
            json_object_set_new(all, key, json_string(value ? value + 1 : ""));
        } else if (n > 3 && !strcmp(name + n - 3, ".py") && !text_of(all, "program")) {
            leave_launcher_out(all);
            json_object_set_new(all, "program", json_string(name));
        } else if (*w == '$' && (!said || *said)) {
            json_object_set_new(all, w, json_string("$"));
        } else if (said) {
            snprintf(joined, sizeof joined, "%s%s%s", said, *said ? " " : "", w);
            json_object_set_new(all, key, json_string(joined));
        }
    }
    compare_twice(all);
    enum status status = all ? flat_json(all, out) : FAIL(E_MEMORY, "no memory for the words of %s", s->path);
    json_decref(all);
    return status;
}

enum status flat_shell(const char *path, const char *text, struct flat *out) {
    struct shell *s = calloc(1, sizeof *s);
    if (s) s->variable = calloc(MOST_VARIABLES, sizeof *s->variable);
    enum status status = s && s->variable ? OK : FAIL(E_MEMORY, "no memory to read %s", path);
    if (status == OK) {
        s->path = path, s->at = text;
        for (char end = '\n', before; before = end, *s->at;) end = next_statement(s), run(s, before == '?');
        if (!s->n_started) start_from_variable(s);
        if (s->n_started == 1) status = add_words(s, out);
        else status = FAIL(E_FORMAT, s->n_started ? "%s starts several programs with --num-layers; give a file with one"
                                                  : "%s starts no program with --num-layers", path);
    }
    if (s) free(s->variable);
    free(s);
    return status;
}
