/* Where a technique's options lie in a plan: one behind the other, in the order of the recipe. */
#include "lib/run/technique.h"

#include <stdlib.h>

static size_t room_of(const struct technique *t) {
    size_t unit = sizeof(double);
    return (t->options.bytes + unit - 1) / unit * unit;
}

void *plan_own(const struct plan *p, const struct technique *t) {
    size_t at = 0;
    for (int i = 0; i < p->recipe->n_techniques; at += room_of(p->recipe->techniques[i++]))
        if (p->recipe->techniques[i] == t) return (unsigned char *)p->own + at;
    return NULL;
}

/* Behind those that are there already. *used: bytes of plan->own that are taken. */
static enum status join_own(const struct technique *t, struct option *all, int *n, size_t *used) {
    if (*used + t->options.bytes > PLAN_OWN_BYTES)
        return FAIL(E_INTERNAL, "options of technique %s need %zu bytes, and %zu of the %d that a plan has for them are left; "
                    "raise PLAN_OWN_BYTES", t->name, t->options.bytes, PLAN_OWN_BYTES - *used, PLAN_OWN_BYTES);
    for (int i = 0; i < t->options.n; i++) {
        all[*n] = t->options.option[i];
        all[(*n)++].at += offsetof(struct plan, own) + *used;
    }
    *used += room_of(t);
    return OK;
}

enum status recipe_options_join(const struct recipe *recipe, struct option_table *table) {
    int n = plan_options.n;
    size_t used = 0;
    for (int i = 0; i < recipe->n_techniques; i++) n += recipe->techniques[i]->options.n;
    struct option *all = calloc((size_t)n, sizeof *all);
    *table = (struct option_table){all, 0};
    if (!all) return FAIL(E_MEMORY, "no memory for a table of %d options", n);
    for (table->n = 0; table->n < plan_options.n; table->n++) all[table->n] = plan_options.option[table->n];
    for (int i = 0; i < recipe->n_techniques; i++) TRY(join_own(recipe->techniques[i], all, &table->n, &used));
    return OK;
}
