/* The model and its sizes: from the user's options, a preset, or the checkpoint that a run begins with. */
#include "driver/recipe.h"
#include "driver/setup.h"
#include "driver/train/train_options.h"
#include "lib/base/log.h"
#include "lib/checkpoint/checkpoint.h"
#include "lib/stacks/from.h"
#include <string.h>

const char *setup_from(const struct plan *p) {
    return train_options(p)->resume[0] ? train_options(p)->resume : train_options(p)->init;
}

const char *setup_name(const struct plan *p) { return train_options(p)->from[0] ? train_options(p)->from : p->model; }

enum status setup_sizes(const struct checkpoint_model *m, struct options *o, enum option_source source) {
    for (int i = 0; i < N_MODEL_OPTIONS; i++) {
        const char *name;
        char value[MODEL_VALUE_MAX];
        if (checkpoint_model_option(m, i, &train_recipe, &name, value)) TRY(options_set(o, name, value, source));
    }
    return OK;
}

/* Does the user name a model? "tiny" does not count: it is the default, and a preset of every arch. */
static bool names_a_model(const struct options *o, const struct plan *p) {
    return options_source(o, "model") != FROM_DEFAULT && strcmp(p->model, "tiny") != 0;
}

enum status setup_preset(struct options *o, struct plan *p, bool trains) {
    const struct train_options *t = train_options(p);
    if (t->from[0] || t->ignore[0]) TRY(from_apply(t->from, t->ignore, trains, t->log >= LOG_INFO, p->recipe, o));
    return recipe_preset(p, o);
}

enum status setup_model(struct options *o, struct plan *p, bool trains) {
    char step[CHECKPOINT_PATH_MAX];
    struct checkpoint_model m;
    bool both = train_options(p)->resume[0] && train_options(p)->init[0];   /* plan_settle refuses both */
    if (!setup_from(p)[0] || both) return setup_preset(o, p, trains);
    TRY(checkpoint_resolve(setup_from(p), step));
    TRY(checkpoint_model(step, &m));
    const char *arch = m.arch[0] ? m.arch : "gpt";
    bool named = names_a_model(o, p);
    if (!named) TRY(options_set(o, "arch", arch, FROM_PRESET));
    TRY(setup_preset(o, p, trains));
    if (named || strcmp(p->arch->name, arch) != 0 || p->arch->clicks) return OK;
    if (m.dropless) TRY(options_set(o, "capacity", "0", FROM_PRESET));
    return setup_sizes(&m, o, FROM_PRESET);
}
