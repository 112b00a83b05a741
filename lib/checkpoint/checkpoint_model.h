/* The model of a checkpoint: its architecture, and its sizes. */
#pragma once

#include "lib/run/model.h"
#include <jansson.h>

/* arch: the name in struct model; "": gpt. untied: 1 if the head has a matrix of its own. kv_heads, ffn, rope_theta,
 * head_dim: 0 if they have the default of a plan. experts_per_token: 0 without experts. dropless: 1 if experts drop no
 * token (capacity 0); it is not compared. more: what no size says, as options: "norm-eps=1e-06"; values that are the
 * options' defaults are left out, and it is zero behind its end. */
enum { N_MODEL_SIZES = 13, N_MODEL_MORE = 28, N_MODEL_OPTIONS = N_MODEL_SIZES + N_MODEL_MORE };
/* Bytes of an option's name and "=", of its value and 0, and of all options. */
enum { MODEL_NAME_MAX = 32, MODEL_VALUE_MAX = 192, MODEL_MORE_MAX = N_MODEL_MORE * (MODEL_NAME_MAX + MODEL_VALUE_MAX) };
/* The most tokens of --window, and letters of --window-layers. */
enum { MODEL_WINDOW_MAX = 1000000000, MODEL_LETTERS_MAX = 128 };
struct checkpoint_model {
    char arch[16];
    int64_t layers, hidden, heads, seq, vocab, untied, kv_heads, ffn, rope_theta, experts, experts_per_token, dropless,
        head_dim;
    char more[MODEL_MORE_MAX];
};

/* A size: its name (in the manifest and as an option), its offset in struct checkpoint_model, and its range. */
struct model_size { const char *name; size_t at; int64_t least, most; };
extern const struct model_size model_sizes[N_MODEL_SIZES];
static inline int64_t *model_size_of(struct checkpoint_model *m, int i) {
    return (int64_t *)((char *)m + model_sizes[i].at);
}

/** The model of a plan. */
struct checkpoint_model checkpoint_model_of_plan(const struct plan *);
/** Write the model as a member of a manifest, and read it back. Values that are 0 or "" are left out. NULL: no memory.
 *  where: the manifest's path.
 *  @errors E_FORMAT: the model is missing or impossible */
json_t *checkpoint_model_json(const struct checkpoint_model *);
enum status checkpoint_model_read(const json_t *manifest, const char *where, struct checkpoint_model *out);
/** Is each size within its option's range, does heads divide hidden unless there is a head-dim, and kv-heads divide
 *  heads? Then products of these sizes do not overflow 64 bits. @errors E_FORMAT naming `where` */
enum status checkpoint_model_check(const struct checkpoint_model *, const char *where);
/** Does the plan's model fit these weights? Its seq may be shorter, or of any length if no weight depends on it.
 *  @errors E_FORMAT naming `where`, the size that differs, and both values */
enum status checkpoint_model_compare(const struct checkpoint_model *, const struct plan *, const char *where);

/** Option i of N_MODEL_OPTIONS, which sets a size of the model or is one of `more`, and its value; false: no option is
 *  needed. A recipe: over the preset `tiny` of the model's arch, so that defaults are said where it has other values;
 *  NULL: over the defaults of a plan. */
struct recipe;
bool checkpoint_model_option(const struct checkpoint_model *, int i, const struct recipe *, const char **name,
                             char value[MODEL_VALUE_MAX]);

/** The value of an option in `more`; "": the model has the option's default. */
void checkpoint_model_said(const struct checkpoint_model *, const char *name, char value[MODEL_VALUE_MAX]);
/** The same of a real; `usual` if the model has the default. */
double checkpoint_model_real(const struct checkpoint_model *, const char *name, double usual);
/** Append an option to `more`, in the order of checkpoint_model.c's list. It has room for all of them. */
void checkpoint_model_say(struct checkpoint_model *, const char *name, const char *value);
/** Put the options of `more` into that order; options that are not in the list are dropped. */
void checkpoint_model_sort(struct checkpoint_model *);
/** The same of a real that is not `usual`. */
void checkpoint_model_say_real(struct checkpoint_model *, const char *name, double value, double usual);

/** Make a plan of the model, for one sample, whose other options have their defaults. The plan keeps `recipe`, which
 *  lists the model that owns the options of `more`. @errors E_USAGE: a value outside its option's range; E_MEMORY */
enum status checkpoint_model_plan(const struct checkpoint_model *, const struct recipe *, struct plan *out);
