/* A model: one row of data and functions that lib and the driver read. Its list of steps depends on no technique, and
 * no technique depends on a model: both name axes by the same letters. How to add one: docs/how-to/add-a-model.md. */
#pragma once

#include "lib/program/program.h"
#include "lib/run/plan.h"
#include "lib/run/published.h"

/* The sizes of a model that has a name: options and values, as in "layers=12 hidden=768". An option that the user sets
 * overrides its preset. */
struct model_preset { const char *name, *options; };

struct run; struct data_split; struct checkpoint_model; struct checkpoint_reader;

/* A file format of another project for this model's weights, named in `checkpoint import --from` and `export --to`. One
 * process calls both functions. */
struct model_format {
    const char *name;
    /** Convert the file at `path` to a checkpoint of weights alone in the folder `save`. heads: the user's number, or
     *  0. *out: the model of the file. @errors E_USAGE: heads given although the file has them; E_DATA, E_FORMAT,
     *  E_CONFIG, E_IO */
    enum status (*import)(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);
    /** Write the checkpoint's weights to `path`, which must not exist. dtype: the user's, or N_DTYPES.
     *  @errors E_USAGE: a dtype that the format does not have; E_CONFIG, E_IO */
    enum status (*export)(const struct checkpoint_reader *, enum dtype, const char *path);
    const char *model_type;              /* "model_type" in the format's config.json; NULL: it has no config.json */
    /** Refuse a model that the format cannot hold; export calls it, too. NULL: it holds all. Pure.  @errors E_CONFIG */
    enum status (*check)(const struct checkpoint_model *);
    /** Read the model of a config.json. NULL: the format has none. @errors E_DATA: there is no file; E_FORMAT: it
     *  describes no model that this one computes */
    enum status (*config)(const char *path, struct checkpoint_model *out);
};

/* Token ids that a model itself puts into samples, in place of the text's tokens: the n ids first, first - 1, ...
 * option: the name of the option that sets `first`; said: the user set it. what: a noun for messages. */
struct own_tokens { int64_t first, n; bool said; const char *what, *option; };

/* How a model reads samples that are no tokens. run: a struct run. */
struct own_samples {
    /* The hooks of struct exec_hooks with these names. A microbatch beyond the step's last is one of the next step.
     * @errors E_DATA; see_scores: E_MEMORY */
    enum status (*fetch)(void *run, int microbatch, int32_t *const data[N_DATA]);
    enum status (*fetch_features)(void *run, int microbatch, void *features);
    enum status (*see_scores)(void *run, const void *logits, const int32_t *labels);
    int64_t (*words)(const struct plan *);   /* the words of a sample (clicks_words). Pure */
    /* Refuse samples first .. first + n - 1 if they do not fit the model. It reads all of them. @errors E_DATA */
    enum status (*check)(const struct run *, const struct data_split *, int64_t first, int64_t n);
    /* The AUC of a whole evaluation, from what see_scores kept on all ranks.
     * @collective{mesh} @errors E_MEMORY, E_COMM, E_TIMEOUT */
    enum status (*auc)(const struct run *, const void *kept, double *auc);
};

struct model {
    const char *name;
    const struct model_preset *presets[32]; /* tables of names that --model takes for this row; each ends with {NULL} */
    const struct model_format *formats; /* ends with {NULL}; NULL: none */
    const struct published *published;  /* tensor names of published files; ends with {NULL}; NULL: none */
    bool any_seq;                       /* no weight depends on --seq, so a checkpoint serves any --seq */
    const struct own_samples *clicks;   /* its samples are clicks (lib/data/clicks.h); NULL: tokens */
    struct own_options options;         /* the model's own; all models share struct model_options */
    enum status (*build)(const struct plan *, struct program *); /* the whole model, not sharded; pure */
    /* Change a sample in place: whole[d] has seq elements of each kind of data, at first the text's tokens and, as
     * targets, the token after each. NULL: the model trains on these. The result depends on the plan's seed, the text
     * and the sample's number alone; each sample of a run has its own number, in evaluation a negative one.
     * @errors E_CONFIG */
    enum status (*sample)(const struct plan *, int64_t number, int32_t *const whole[N_DATA]);
    struct own_tokens (*own_tokens)(const struct plan *);            /* pure; NULL: none */
    /* The number of positions of each sample that have a target; the loss is their mean. NULL: seq. */
    int64_t (*n_targets)(const struct plan *);
    /* The number of parameters of the whole model. A tied param counts once; padding does not count. */
    int64_t (*n_params)(const struct plan *);
    /* Floating-point operations of forward and backward for a token, without recomputation: MFU's numerator. */
    double (*flops_per_token)(const struct plan *);
};

/** The number of targets of each sample. */
static inline int64_t model_targets(const struct plan *p) {
    return p->arch->n_targets ? p->arch->n_targets(p) : p->seq;
}
