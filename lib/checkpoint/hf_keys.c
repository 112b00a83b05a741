#include "lib/checkpoint/hf_keys.h"

#include "lib/base/log.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64, SHOWN_MAX = 80, LIST_MAX = 1000 };

/* ---- words and values ---- */

/* The next word of a list whose words are separated by | and blanks; false: there is none. */
static bool next_word(const char **list, char word[WORD_MAX]) {
    static const char between[] = "| ,\n";
    const char *at = *list + strspn(*list, between);
    size_t n = strcspn(at, between);
    snprintf(word, WORD_MAX, "%.*s", (int)n, at);
    *list = at + n;
    return n > 0;
}

static bool has_word(const char *list, const char *wanted) {
    char word[WORD_MAX];
    while (list && next_word(&list, word))
        if (!strcmp(word, wanted)) return true;
    return false;
}

const char *hf_keys_show(const json_t *x) {
    static char texts[4][SHOWN_MAX];
    static int turn;
    char *out = texts[turn++ % 4], *dump = json_dumps(x, JSON_ENCODE_ANY | JSON_REAL_PRECISION(10));
    bool cut = dump && strlen(dump) > 60;
    snprintf(out, SHOWN_MAX, "%.*s%s", cut ? 57 : 60, dump ? dump : "nothing", cut ? "..." : "");
    free(dump);
    return out;
}

/* The JSON value of a text in a table. */
static json_t *value_of(const char *text) {
    json_t *x = json_loads(text, JSON_DECODE_ANY, NULL);
    return x ? x : json_string(text);
}

/* Is x the wanted value? If the table has an integer, 2.0 is not 2, as in the reference; if it has 1e-5 or 0.0, any
 * equal number counts. */
static bool same(const json_t *x, const json_t *wanted) {
    return json_is_real(wanted) && json_is_number(x) ? json_number_value(x) == json_real_value(wanted)
                                                     : json_equal(x, wanted);
}

static bool is_wanted(const json_t *x, const char *wanted) {
    char word[WORD_MAX];
    bool found = false;
    while (!found && next_word(&wanted, word)) {
        json_t *w = value_of(word);
        found = same(x, w);
        json_decref(w);
    }
    return found;
}

/* ---- the watch ---- */

static const struct hf_watch *watch;

void hf_keys_watch(const struct hf_watch *w) { watch = w; }

/* Without a watch, refuse the key; with one, report it. x NULL: the file does not have the key. */
static enum status heard(enum status status, const char *key, const json_t *x, const char *became) {
    if (!watch || (!x && status == OK)) return status;
    watch->hear(watch->self, key, x ? hf_keys_show(x) : "not said", status == OK ? became : status_message(),
                status != OK);
    if (status != OK) status_clear();
    return OK;
}

static bool is_ignored(const char *names) {
    char word[WORD_MAX];
    while (watch && next_word(&names, word))
        if (has_word(watch->ignored, word)) return true;
    return false;
}

void hf_keys_leave_out(json_t *config) {
    char word[WORD_MAX];
    const char *words = watch ? watch->ignored : NULL;
    while (words && next_word(&words, word)) {
        const json_t *x = json_object_get(config, word);
        if (x) watch->hear(watch->self, word, hf_keys_show(x), "ignored", false);
        json_object_del(config, word);
    }
}

/* ---- one key ---- */

struct place { const char *where, *model; void *out; };

/* Find the key's value under any of its names; *value NULL: none is there. *name: the name that is, or the key's
 * first. */
static enum status find_value(const struct place *p, const json_t *object, const struct hf_key *key,
                              char name[WORD_MAX], const json_t **value) {
    const char *names = key->names;
    char other[WORD_MAX];
    *value = NULL;
    for (bool first = true; next_word(&names, other); first = false) {
        const json_t *x = json_object_get(object, other);
        if (x && *value && !same(x, *value))
            return FAIL(E_FORMAT, "%s: %s is %s and %s is %s, and both are one key: leave one out", p->where, name,
                        hf_keys_show(*value), other, hf_keys_show(x));
        if (first || (x && !*value)) strcpy(name, other);
        if (x) *value = x;
    }
    return OK;
}

static enum status read_number(const struct place *p, const struct hf_key *key, const char *name, const json_t *x) {
    int64_t *to = (int64_t *)((char *)p->out + key->at);
    bool flag = key->use == HF_FLAG, none = json_is_null(x) && key->missing && !strcmp(key->missing, "null");
    *to = flag ? json_is_true(x) : none ? 0 : (int64_t)json_integer_value(x);
    if (none || (flag ? json_is_boolean(x) : json_is_integer(x) && *to >= 1)) return OK;
    return FAIL(E_FORMAT, "%s: %s is %s; it must be %s", p->where, name, hf_keys_show(x),
                flag ? "true or false" : "a whole number from 1");
}

static enum status read_real(const struct place *p, const struct hf_key *key, const char *name, const json_t *x) {
    double *to = (double *)((char *)p->out + key->at);
    *to = json_number_value(x);
    bool none = json_is_null(x) && key->missing && !strcmp(key->missing, "null");
    if (none || (*to > 0 && *to <= 1e6)) return OK;
    return FAIL(E_FORMAT, "%s: %s is %s; it must be a number above 0, up to 1e6", p->where, name, hf_keys_show(x));
}

static enum status read_value(const struct place *p, const struct hf_key *key, const char *name, const json_t *x,
                              bool said) {
    if (key->use == HF_READ) return OK;
    if (key->use == HF_REAL) return read_real(p, key, name, x);
    if (key->use != HF_MUST) return read_number(p, key, name, x);
    if (is_wanted(x, key->wanted)) return OK;
    if (said)
        return FAIL(E_FORMAT, "%s: %s is %s; Trivium's %s has %s", p->where, name, hf_keys_show(x), p->model,
                    key->wanted);
    return FAIL(E_FORMAT, "%s does not say %s, which is %s then; Trivium's %s has %s", p->where, name, hf_keys_show(x),
                p->model, key->wanted);
}

static enum status read_key(const struct place *p, const json_t *object, const struct hf_key *key) {
    char name[WORD_MAX];
    const json_t *said;
    TRY(find_value(p, object, key, name, &said));
    if (!said && !key->missing)
        return FAIL(E_FORMAT, "%s does not say %s; is it the config.json of a %s?", p->where, name, p->model);
    if (key->use == HF_MUST && is_ignored(key->names)) return OK;
    if (!said && !strcmp(key->missing, "absent")) return OK;
    json_t *missing = said ? NULL : value_of(key->missing);
    enum status status = read_value(p, key, name, said ? said : missing, said != NULL);
    json_decref(missing);
    return heard(status, name, said, key->use == HF_MUST ? "Trivium does the same" : "read");
}

/* ---- all keys ---- */

const struct hf_key *hf_keys_find(const struct hf_keys *t, const char *name) {
    for (const struct hf_key *key = t->key; key && key->names; key++)
        if (has_word(key->names, name)) return key;
    return NULL;
}

static bool is_known(const struct hf_keys *t, const char *name) {
    return hf_keys_find(t, name) || has_word(t->none, name) || has_word(t->free, name);
}

/* A key that an earlier table has may be there. */
static enum status read_none(const struct place *p, const json_t *object, const struct hf_keys *const tables[],
                             int table) {
    const char *words = tables[table]->none;
    char word[WORD_MAX];
    while (words && next_word(&words, word)) {
        const json_t *x = json_object_get(object, word);
        enum status status = OK;
        bool known = false;
        for (int i = 0; i < table; i++) known |= is_known(tables[i], word);
        if (known) continue;
        if (x && !json_is_null(x))
            status = FAIL(E_FORMAT, "%s: %s is %s; Trivium's %s has none", p->where, word, hf_keys_show(x), p->model);
        TRY(heard(status, word, x, "none, as in the model"));
    }
    return OK;
}

static bool is_free(const struct hf_keys *const tables[], const char *name) {
    bool found = false;
    for (int i = 0; tables[i]; i++) found |= has_word(tables[i]->free, name);
    return found;
}

/* Report the keys that are in no table, and to the watch those that do not change the computation. */
static enum status say_others(const struct place *p, const json_t *object, const struct hf_keys *const tables[],
                              bool strict) {
    char list[LIST_MAX] = "";
    const char *name;
    const json_t *value;
    json_object_foreach((json_t *)object, name, value) {
        bool known = false;
        for (int i = 0; tables[i]; i++) known |= is_known(tables[i], name);
        if (!known && strict && !is_ignored(name))
            TRY(heard(FAIL(E_FORMAT, "%s: %.60s is %s; Trivium's %s has none", p->where, name, hf_keys_show(value),
                           p->model), name, value, ""));
        else if (!known) (void)heard(OK, name, value, "not read, as transformers does not; is it a typo?");
        else if (is_free(tables, name)) (void)heard(OK, name, value, "does not matter here");
        size_t used = strlen(list);
        if (!known) snprintf(list + used, sizeof list - used, "%s%.60s", used ? ", " : "", name);
    }
    if (*list && !watch) log_info("%s: not read, as transformers' %s does not: %s", p->where, p->model, list);
    return OK;
}

enum status hf_keys_read(const char *where, const char *model, const json_t *object,
                         const struct hf_keys *const tables[], bool strict, void *out) {
    struct place p = {where, model, out};
    for (int i = 0; tables[i]; i++) {
        for (const struct hf_key *key = tables[i]->key; key && key->names; key++) TRY(read_key(&p, object, key));
        TRY(read_none(&p, object, tables, i));
    }
    return say_others(&p, object, tables, strict);
}

/* ---- writing ---- */

/* NULL: the caller's. */
static json_t *value_to_write(const struct hf_key *key, const void *in) {
    const char *allowed = key->wanted, *at = (const char *)in + key->at;
    char word[WORD_MAX];
    switch (key->use) {
    case HF_SIZE: return json_integer((json_int_t)*(const int64_t *)at);
    case HF_REAL: return json_real(*(const double *)at);
    case HF_FLAG: return json_boolean(*(const int64_t *)at);
    case HF_MUST: return next_word(&allowed, word) ? value_of(word) : NULL;
    default: return NULL;
    }
}

json_t *hf_keys_write(const struct hf_keys *t, const void *in, json_t *config) {
    int failed = 0;
    for (const struct hf_key *key = t->key; key->names; key++) {
        const char *names = key->names;
        char first[WORD_MAX];
        (void)next_word(&names, first);
        if (key->use != HF_READ) failed |= json_object_set_new(config, first, value_to_write(key, in));
    }
    if (failed) json_decref(config);
    return failed ? NULL : config;
}
