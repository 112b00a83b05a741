/* A model: one row of what lib and the driver ask of it. Its list of steps depends on no technique, and no technique on
 * a model: they meet in the letters of axes. How to add one: docs/how-to/add-a-model.md. */
#pragma once

#include "lib/program/program.h"
#include "lib/run/plan.h"
#include "lib/run/published.h"

/* Sizes that people know by a name: options and values, as in "layers=12 hidden=768". What the user sets stands above
 * them. */
struct model_preset { const char *name, *options; };

struct checkpoint_model;
struct checkpoint_reader;

/* A file of another project that holds this model's weights: `checkpoint import --from` and `export --to` its name.
 * Both functions are called by one process. */
struct model_format {
    const char *name;
    /** Make a checkpoint of weights alone in `save` of the file at `path`. heads: 0 if the user does not say them.
     *  *out is what model it is. @errors E_USAGE: heads that the file says itself; E_DATA, E_FORMAT, E_CONFIG, E_IO */
    enum status (*import)(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);
    /** Write the checkpoint's weights to `path`, which may not be there. dtype: N_DTYPES if the user does not say it.
     *  @errors E_USAGE: a dtype that the format does not have; E_CONFIG, E_IO */
    enum status (*export)(const struct checkpoint_reader *, enum dtype, const char *path);
    const char *model_type;              /* the model's type in the config.json of such files; NULL: they have none */
    /** Can such a model be written so? export asks, too. NULL: every one can. Pure.  @errors E_CONFIG */
    enum status (*check)(const struct checkpoint_model *);
};

/* Tokens that a model puts into samples itself, in the place of a text's: n of them, the first and those below it.
 * option: that chooses the first; said: it does. what: they are, for messages. */
struct own_tokens { int64_t first, n; bool said; const char *what, *option; };

struct model {
    const char *name;
    const struct model_preset *presets; /* by which --model chooses this row; ends with {NULL} */
    const struct model_format *formats; /* ends with {NULL}; NULL: none */
    const struct published *published;  /* what others call its tensors; ends with {NULL}; NULL: nothing */
    bool any_seq;                       /* no weight has a sequence's length: a checkpoint serves any --seq */
    bool clicks;                        /* it reads samples of clicks (lib/data/clicks.h), and not tokens */
    struct own_options options;         /* in addition to those that all models share, which are the plan's */
    enum status (*build)(const struct plan *, struct program *); /* for one rank, whole and unaltered; pure */
    /* Make data of a sample's text, T tokens and the one that follows each: whole[d] has T places of each kind. NULL:
     * these are its data. A pure function of the plan's seed, the text and the sample's number, which no other of the
     * run has (of evaluation: negative). @errors E_CONFIG */
    enum status (*sample)(const struct plan *, int64_t number, int32_t *const whole[N_DATA]);
    struct own_tokens (*own_tokens)(const struct plan *);            /* pure; NULL: none */
    /* How many places of each sample are predicted, which the loss is the mean of. NULL: seq. */
    int64_t (*n_targets)(const struct plan *);
    /* Parameters of the whole model; a tied param counts once, padding not at all. */
    int64_t (*n_params)(const struct plan *);
    /* Forward and backward, without recomputation: what MFU counts. */
    double (*flops_per_token)(const struct plan *);
};

/** Targets of each sample. */
static inline int64_t model_targets(const struct plan *p) {
    return p->arch->n_targets ? p->arch->n_targets(p) : p->seq;
}
