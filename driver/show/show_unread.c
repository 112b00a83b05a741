/* See show_views.h. */
#include "driver/show/show_views.h"

#include <string.h>

struct need { const char *what, *option; bool met; const char *remedy; };

enum status show_refuse_unread(const struct options *o, const char *what, const struct show_asked *x) {
    const bool rows = x->mib && x->algorithm && !x->crossings;
    const struct need needs[] = {
        {"memory", "rank", (x->out || x->json) && !x->params, "give --json or --out report without --params"},
        {"memory", "decode", !x->params, "leave --params out"},
        {"comm", "rank", !x->mib || rows, "give --comm-algorithm ring without --crossings"},
        {"comm", "op", x->mib && !x->crossings, "give --mib 25 without --crossings"},
        {"comm", "ranks", x->mib, "give --mib 25"},
        {"comm", "out", rows, "give --mib 25 --comm-algorithm ring without --crossings"},
        {"comm", "json", !rows, "leave --comm-algorithm out"},
    };
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct need *n = &needs[i];
        if (n->met || strcmp(n->what, what) || options_source(o, n->option) == FROM_DEFAULT) continue;
        return FAIL(E_USAGE, "--%s: show %s does not read it here; %s, or leave --%s out", n->option, what, n->remedy,
                    n->option);
    }
    return OK;
}

/* Options that the formulas read, and options that show_params refuses itself with a better reason. */
static bool params_read(const char *name) {
    static const char *const names[] = {"params", "json", "out", "dp", "cp", "tp", "pp", "ep", "zero", "shard",
                                        "zero-secondary", "ranks-per-node", "offload", "precision", "grad-fp32",
                                        "local-steps", "device", "log", "optimizer", "momentum"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static void find_unread(void *self, const struct option *o, const char *value, enum option_source source) {
    const char **unread = self;
    (void)value;
    if (!*unread && source != FROM_DEFAULT && !params_read(o->name)) *unread = o->name;
}

enum status show_params_refuse_unread(const struct options *o) {
    const char *unread = NULL;
    options_each(o, find_unread, &unread);
    if (!unread) return OK;
    return FAIL(E_USAGE, "--%s: show memory --params counts by formula, without a model, and does not read it; leave "
                "--%s or --params out", unread, unread);
}
