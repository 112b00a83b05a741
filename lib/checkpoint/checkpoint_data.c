#include "lib/checkpoint/checkpoint_data.h"

#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/comm/comm.h"
#include "lib/ops/gemm/gemm_choices.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES = 512 };

/* ---- a run's record of its data ---- */

static json_t *text_of(const char *format, uint64_t x) {
    char text[32];
    snprintf(text, sizeof text, format, x);
    return json_string(text);
}

static json_t *part_json(const struct data_split *s) {
    return json_pack("{s:s, s:o, s:o, s:o, s:o}", "kind", data_format_name(s->file),
                     "tokens", text_of("%" PRIu64, (uint64_t)data_n_tokens(s->file)),
                     "xxh3", text_of("%016" PRIx64, data_hash(s->file)),
                     "first", text_of("%" PRIu64, (uint64_t)s->first),
                     "n", text_of("%" PRIu64, (uint64_t)s->n_tokens));
}

static json_t *value_json(const struct option *o, const char *own) {
    const char *at = own + o->at;
    switch (o->type) {
    case OPTION_INT: return json_integer(*(const int64_t *)at);
    case OPTION_REAL: return json_real(*(const double *)at);
    case OPTION_TEXT: return json_string(at);
    default: return json_integer(*(const int *)at);
    }
}

static json_t *options_json(const struct plan *p) {
    const struct own_options *own = &p->arch->options;
    json_t *all = json_object();
    for (int i = 0; i < own->n; i++)
        if (json_object_set_new(all, own->option[i].name, value_json(&own->option[i], plan_own(p, own)))) return NULL;
    return all;
}

json_t *checkpoint_data_json(const struct run *r) {
    json_t *data = json_object();
    bool failed = !data;
    if (r->train.file) failed |= json_object_set_new(data, "train", part_json(&r->train)) != 0;
    if (r->val.file && data_split_samples(&r->val) > 0)
        failed |= json_object_set_new(data, "validation", part_json(&r->val)) != 0;
    if (r->plan.arch && r->plan.arch->options.n > 0)
        failed |= json_object_set_new(data, "options", options_json(&r->plan)) != 0;
    if (!failed) return data;
    json_decref(data);
    return NULL;
}

/* The value of an option as it is typed */
static json_t *said_json(const struct option *o, const char *own) {
    const char *word = o->choices;
    if (o->type == OPTION_BOOL) return json_string(*(const int *)(own + o->at) ? "on" : "off");
    if (o->type != OPTION_CHOICE) return value_json(o, own);
    for (int i = *(const int *)(own + o->at); i > 0 && word; i--) word = strchr(word, '|') + 1;
    return json_stringn(word, strcspn(word, "|"));
}

static void add_named(json_t *all, const struct plan *p, const char *const *names) {
    for (int i = 0; names[i]; i++)
        for (const struct option *o = plan_options.option; o < plan_options.option + plan_options.n; o++)
            if (!strcmp(o->name, names[i])) json_object_set_new(all, o->name, value_json(o, (const char *)p));
}

/* Layouts and machines may change at a resume: only what changes the numbers is of interest. */
static void add_techniques(json_t *all, const struct plan *p) {
    for (int i = 0; p->recipe && i < p->recipe->n_techniques; i++) {
        const struct own_options *own = &p->recipe->techniques[i]->options;
        for (const struct option *o = own->option; o < own->option + own->n; o++)
            if (!strcmp(o->group, "training") || !strcmp(o->group, "precision"))
                json_object_set_new(all, o->name, said_json(o, plan_own(p, own)));
    }
}

json_t *checkpoint_optimizer_json(const struct plan *p) {
    static const char *const OF_MODELS[] = {"dropout", "capacity", "aux-loss", "z-loss", NULL};
    json_t *all = json_object();
    add_named(all, p, plan_optimizer(p)->reads);
    add_named(all, p, OF_MODELS);
    add_techniques(all, p);
    json_object_update_new(all, json_pack("{s:f, s:f, s:f, s:f, s:f}", "weight_decay", p->weight_decay, "lr", p->lr,
                                          "min_lr", p->min_lr, "warmup", (double)p->warmup, "clip", p->clip));
    return all;
}

/* ---- comparing two records ---- */

static const char *text_in(const json_t *part, const char *key) {
    const char *text = json_string_value(json_object_get(part, key));
    return text ? text : "?";
}

static bool same(const json_t *a, const json_t *b, const char *key) {
    return json_equal(json_object_get(a, key), json_object_get(b, key));
}

static bool is_same_stream(const json_t *a, const json_t *b) { return same(a, b, "tokens") && same(a, b, "xxh3"); }
static bool is_same_part(const json_t *a, const json_t *b) {
    return is_same_stream(a, b) && same(a, b, "first") && same(a, b, "n");
}

/* List the numbers and texts that are in both objects and differ: "x 1 (was 2), y ..."; "": none differs. */
static void list_changes(const json_t *theirs, const json_t *mine, char out[TEXT_BYTES]) {
    const char *key;
    json_t *x;
    size_t n = 0;
    out[0] = 0;
    json_object_foreach((json_t *)mine, key, x) {
        const json_t *y = json_object_get(theirs, key);
        bool numbers = json_is_number(x) && json_is_number(y);
        if (!y || (numbers ? json_number_value(x) == json_number_value(y) : json_equal(x, y))) continue;
        char *is = json_dumps(x, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6)),
             *was = json_dumps(y, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
        if (n < TEXT_BYTES)
            n += (size_t)snprintf(out + n, TEXT_BYTES - n, "%s%s %s (was %.64s)", n ? ", " : "", key, is ? is : "?",
                                  was ? was : "?");
        free(is), free(was);
    }
}

/* Begin a sentence that names what has changed about the samples; "": nothing has changed. */
static void find_others(const json_t *theirs, const json_t *mine, const struct run *r, char out[TEXT_BYTES]) {
    const json_t *a = json_object_get(theirs, "train"), *b = json_object_get(mine, "train");
    char changes[TEXT_BYTES] = "";
    out[0] = 0;
    if (r->plan.arch && r->plan.arch->sample)
        list_changes(json_object_get(theirs, "options"), json_object_get(mine, "options"), changes);
    if (a && b && !is_same_stream(a, b))
        snprintf(out, TEXT_BYTES, "other tokens: %.32s (%.64s, xxh3 %.16s) there, and %s (%s, xxh3 %s) here",
                 text_in(a, "tokens"), text_in(a, "kind"), text_in(a, "xxh3"), text_in(b, "tokens"),
                 text_in(b, "kind"), text_in(b, "xxh3"));
    else if (a && b && !is_same_part(a, b))
        snprintf(out, TEXT_BYTES, "another part of the same tokens: %.32s from %.32s on there, and %s from %s on here "
                 "(val-fraction, val-data)", text_in(a, "n"), text_in(a, "first"), text_in(b, "n"),
                 text_in(b, "first"));
    else if (changes[0]) snprintf(out, TEXT_BYTES, "samples that were made in another way: %.400s", changes);
}

static void say_of_validation(const json_t *theirs, const json_t *mine, const char *where) {
    const json_t *a = json_object_get(theirs, "validation"), *b = json_object_get(mine, "validation");
    if (b && comm_is_rank_0() && !(a && is_same_part(a, b)))
        log_warn("%s was %s; losses of validation cannot be compared with those before", where,
                 a ? "evaluated on other data" : "not evaluated");
}

static void say_of_settings(const json_t *theirs, const json_t *mine, const char *where, const char *what) {
    char changes[TEXT_BYTES];
    list_changes(theirs, mine, changes);
    if (changes[0] && comm_is_rank_0())
        log_warn("%s was trained with other %s: %s", where, what, changes);
}

static enum status compare_data(const json_t *theirs, const json_t *mine, const char *where, const struct run *r,
                                bool other_data) {
    char others[TEXT_BYTES];
    find_others(theirs, mine, r, others);
    if (others[0] && !other_data)
        return FAIL(E_DATA, "%s was trained on %s; give what it was trained on, or --other-data to go on with this",
                    where, others);
    if (others[0] && comm_is_rank_0()) log_warn("%s was trained on %s; --other-data: training goes on", where, others);
    if (!others[0]) say_of_validation(theirs, mine, where);
    if (!r->plan.arch || !r->plan.arch->sample)
        say_of_settings(json_object_get(theirs, "options"), json_object_get(mine, "options"), where, "options");
    return OK;
}

void checkpoint_algorithms(json_t *layout) {
    char hash[24];
    snprintf(hash, sizeof hash, "%016" PRIx64, gemm_choices_hash());
    if (gemm_choices_hash()) json_object_set_new(layout, "gemm-algorithms", json_string(hash));
}

/* Warn of another table of cuBLASLt's algorithms. (In another layout the products and sums differ in any case.) */
static void say_of_algorithms(const json_t *manifest, const char *where) {
    const char *theirs = json_string_value(json_object_get(json_object_get(manifest, "layout"), "gemm-algorithms"));
    json_t *here = json_object();
    checkpoint_algorithms(here);
    const char *mine = json_string_value(json_object_get(here, "gemm-algorithms"));
    if (comm_is_rank_0() && (theirs || mine) && !(theirs && mine && !strcmp(theirs, mine)))
        log_warn("%s was trained with %s%.16s of cuBLASLt's algorithms, and this run has %s%.16s: results have other "
                 "bits", where, theirs ? "table " : "the first choice", theirs ? theirs : "",
                 mine ? "table " : "the first choice", mine ? mine : "");
    json_decref(here);
}

enum status checkpoint_data_compare(const json_t *manifest, const char *where, const struct run *r, bool other_data) {
    const json_t *theirs = json_object_get(manifest, "data");
    const json_t *used = json_object_get(manifest, plan_optimizer(&r->plan)->name);
    json_t *mine = checkpoint_data_json(r), *settings = checkpoint_optimizer_json(&r->plan);
    enum status status = mine && settings ? OK : FAIL(E_MEMORY, "no memory to compare %s with this run", where);
    if (status == OK && json_object_get(theirs, "train")) status = compare_data(theirs, mine, where, r, other_data);
    else if (status == OK && comm_is_rank_0())
        log_warn("%s does not say what it was trained on, as an older version wrote it; whether these data are the "
                 "same is not known", where);
    if (status == OK) say_of_settings(used, settings, where, "settings");
    if (status == OK) say_of_algorithms(manifest, where);
    json_decref(mine);
    json_decref(settings);
    return status;
}
