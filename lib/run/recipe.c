#include "lib/run/recipe.h"
#include "lib/base/integer.h"

#include <stdlib.h>
#include <string.h>

/* ---- plan.own: the shared options, then the job's, the techniques' and the models', in the recipe's order ---- */
static int n_owners(const struct recipe *r) { return r->n_techniques + r->n_models; }
static const struct own_options *owner(const struct recipe *r, int i) {
    return i < r->n_techniques ? &r->techniques[i]->options : &r->models[i - r->n_techniques]->options;
}

static size_t room_of(const struct own_options *o) {
    size_t unit = sizeof(double);
    return round_up(o->bytes, unit);
}

void *plan_own(const struct plan *p, const struct own_options *o) {
    const struct job *job = p->recipe->job;
    size_t at = sizeof(struct shared_options);
    if (job && o == &job->options) return (unsigned char *)p->own + at;
    if (job) at += room_of(&job->options);
    for (int i = 0; i < n_owners(p->recipe); at += room_of(owner(p->recipe, i++)))
        if (owner(p->recipe, i)->option == o->option && owner(p->recipe, i)->bytes) return (unsigned char *)p->own + at;
    return NULL;
}

enum status recipe_options_join(const struct recipe *recipe, struct option_table *table) {
    static const struct job none = {.check = NULL};
    const struct own_options *job = recipe->job ? &recipe->job->options : &none.options;
    int n = plan_options.n + job->n;
    size_t used = sizeof(struct shared_options) + room_of(job);
    for (int i = 0; i < n_owners(recipe); i++) n += owner(recipe, i)->n;
    struct option *all = calloc((size_t)n, sizeof *all);
    *table = (struct option_table){all, plan_options.n + job->n};
    if (!all) return FAIL(E_MEMORY, "no memory for a table of %d options", n);
    memcpy(all, plan_options.option, (size_t)plan_options.n * sizeof *all);
    if (job->n) memcpy(all + plan_options.n, job->option, (size_t)job->n * sizeof *all);
    for (int i = 0; i < n_owners(recipe); i++) {
        const struct own_options *o = owner(recipe, i);
        if (used + o->bytes > PLAN_OWN_BYTES)
            return FAIL(E_INTERNAL, "--%s and its owner's other options need %zu bytes, and %zu of a plan's %d are "
                        "left; raise PLAN_OWN_BYTES", o->option->name, o->bytes, PLAN_OWN_BYTES - used, PLAN_OWN_BYTES);
        for (int k = 0; k < o->n && o->bytes; k++) {
            all[table->n] = o->option[k];
            all[table->n++].at += offsetof(struct plan, own) + used;
        }
        used += room_of(o);
    }
    return OK;
}

/* ---- questions to a plan ---- */
static const struct option *find(const struct own_options *own, const char *name) {
    for (int i = 0; i < own->n; i++)
        if (!strcmp(own->option[i].name, name)) return &own->option[i];
    return NULL;
}

const struct option *plan_option(const struct plan *p, const char *name, void **at) {
    const struct option *o = p->recipe && p->recipe->job ? find(&p->recipe->job->options, name) : NULL;
    if (o) *at = (char *)p + o->at;
    for (int i = 0; !o && p->recipe && i < n_owners(p->recipe); i++) {
        const struct own_options *own = owner(p->recipe, i);
        if ((o = find(own, name))) *at = (char *)plan_own(p, own) + o->at;
    }
    return o;
}

double plan_real(const struct plan *p, const char *option) {
    void *at;
    const struct option *o = plan_option(p, option, &at);
    return !o ? 0 : o->type == OPTION_REAL ? *(double *)at : (double)plan_number(p, option);
}

bool plan_says(const struct plan *p, const char *option) {
    void *at;
    const struct option *o = plan_option(p, option, &at);
    return o && (o->type == OPTION_TEXT ? *(char *)at != 0 : o->type == OPTION_REAL ? *(double *)at != 0
                                                                                    : plan_number(p, option) != 0);
}

int64_t plan_number(const struct plan *p, const char *option) {
    void *at;
    const struct option *o = plan_option(p, option, &at);
    if (!o || o->type == OPTION_TEXT) return 0;
    if (o->type == OPTION_REAL) return (int64_t)*(double *)at;
    return o->type == OPTION_INT ? *(int64_t *)at : *(int *)at;
}

void plan_set_number(struct plan *p, const char *option, int64_t number) {
    void *at;
    const struct option *o = plan_option(p, option, &at);
    if (o && o->type == OPTION_INT) *(int64_t *)at = number;
    else if (o && o->type == OPTION_REAL) *(double *)at = (double)number;
    else if (o) *(int *)at = (int)number;
}

/* The index of a name among choices like "none|selective|block:N"; -1: it is none of them. */
static int number_of(const char *choices, const char *name) {
    size_t n = strlen(name);
    for (int i = 0; choices; i++, choices = strchr(choices, '|'), choices += choices != NULL)
        if (!strncmp(choices, name, n) && strchr("|:", choices[n])) return i;
    return -1;
}

bool plan_has_word(const struct plan *p, const char *option, const char *word) {
    void *at;
    const struct option *o = plan_option(p, option, &at);
    return o && (o->type == OPTION_TEXT ? strcmp(at, word) == 0 : *(int *)at == number_of(o->choices, word));
}

void plan_set_word(struct plan *p, const char *option, const char *word, int64_t count) {
    void *at;
    const struct option *o = plan_option(p, option, &at);
    bool text = o && o->type == OPTION_TEXT;
    if (text) snprintf(at, OPTION_TEXT_MAX, "%s", word);
    else if (o) ((int *)at)[0] = number_of(o->choices, word);
    if (o && !text && count) ((int *)at)[1] = (int)count;
}

const struct keeper *plan_keeper(const struct plan *p) {
    for (int i = 0; i < p->recipe->n_techniques; i++) {
        const struct technique *t = p->recipe->techniques[i];
        if (t->keeper && t->wanted(p)) return t->keeper;
    }
    return NULL;
}

/* ---- presets ---- */
static const struct model_preset *preset_of(const struct model *m, const char *name) {
    for (const struct model_preset *const *t = m->presets; *t; t++)
        for (const struct model_preset *p = *t; p->name; p++)
            if (!strcmp(p->name, name)) return p;
    return NULL;
}

static bool named_before(const struct recipe *r, int model, const char *name) {
    for (int i = 0; i < model; i++)
        if (preset_of(r->models[i], name)) return true;
    return false;
}

/* List the names of one model's presets, or of all models' presets; a shared name appears once. */
static const char *all_names(const struct recipe *r, const struct model *of, char *text, size_t size) {
    size_t n = 0;
    for (int i = 0; i < r->n_models; i++)
        for (const struct model_preset *const *t = r->models[i]->presets; *t; t++)
            for (const struct model_preset *p = *t; p->name && n < size; p++)
                if (of ? of == r->models[i] : !named_before(r, i, p->name))
                    n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "", p->name);
    return text;
}

static enum status set_options(const char *text, struct options *o) {
    for (int n = 0; *text; text += n) {
        char name[32], value[160];
        if (sscanf(text, " %31[^=]=%159s%n", name, value, &n) != 2)
            return FAIL(E_INTERNAL, "\"%s\" of a preset is not option=value option=value", text);
        TRY(options_set(o, name, value, FROM_PRESET));
    }
    return OK;
}

enum status recipe_arch(struct plan *plan, const char *name) {
    char names[256] = "";
    size_t n = 0;
    for (int i = 0; i < plan->recipe->n_models; i++) {
        const struct model *m = plan->recipe->models[i];
        if (n < sizeof names) n += (size_t)snprintf(names + n, sizeof names - n, "%s%s", n ? ", " : "", m->name);
        if (strcmp(m->name, name)) continue;
        plan->arch = m;
        return OK;
    }
    return FAIL(E_CONFIG, "no model is called arch=%s; use one of %s", name, names);
}

/* Refuse an option of another model, which would have no effect. */
static enum status refuse_others(const struct plan *p, const struct options *o) {
    for (int i = 0; i < p->recipe->n_models; i++)
        for (int k = 0; k < p->recipe->models[i]->options.n; k++) {
            const char *name = p->recipe->models[i]->options.option[k].name;
            if (options_source(o, name) != FROM_DEFAULT && !find(&p->arch->options, name))
                return FAIL(E_CONFIG, "%s is an option of arch=%s, and this model is arch=%s; leave it out", name,
                            p->recipe->models[i]->name, p->arch->name);
        }
    return OK;
}

enum status recipe_preset(struct plan *plan, struct options *o) {
    char names[1024] = "";
    bool any = !plan->arch_name[0];
    TRY(optimizer_check_options(plan_optimizer(plan), o));
    if (!any) TRY(recipe_arch(plan, plan->arch_name));
    for (int i = 0; i < plan->recipe->n_models; i++) {
        const struct model *m = plan->recipe->models[i];
        const struct model_preset *preset = any || m == plan->arch ? preset_of(m, plan->model) : NULL;
        if (!preset) continue;
        plan->arch = m;
        TRY(refuse_others(plan, o));
        return set_options(preset->options, o);
    }
    return FAIL(E_CONFIG, "no preset%s%s is called model=%s; use one of %s", any ? "" : " of arch=", plan->arch_name,
                plan->model, all_names(plan->recipe, any ? NULL : plan->arch, names, sizeof names));
}
