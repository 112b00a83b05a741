/* What a checkpoint says of its model: which it is, and its sizes. */
#pragma once

#include "lib/run/model.h"
#include <jansson.h>

/* arch: struct model's name; "": gpt. untied: 1 where the head has a matrix of its own. kv_heads, ffn, rope_theta: 0
 * where they are as a plan that does not say has them. experts_per_token: 0 without experts. dropless: 1 where experts
 * drop no token (capacity 0), which is no size and not compared. */
struct checkpoint_model {
    char arch[16];
    int64_t layers, hidden, heads, seq, vocab, untied, kv_heads, ffn, rope_theta, experts, experts_per_token, dropless;
};

/* A size: its name in the manifest, which is also that of the option; where it is; what it may be. */
struct model_size { const char *name; size_t at; int64_t least, most; };
enum { N_MODEL_SIZES = 12 };
extern const struct model_size model_sizes[N_MODEL_SIZES];
static inline int64_t *model_size_of(struct checkpoint_model *m, int i) {
    return (int64_t *)((char *)m + model_sizes[i].at);
}

/** The model of a plan. */
struct checkpoint_model checkpoint_model_of_plan(const struct plan *);
/** As a member of a manifest, and back; what is 0 or "" is left out. NULL: no memory. where: of the manifest.
 *  @errors E_FORMAT: it does not say, or what it says is no model */
json_t *checkpoint_model_json(const struct checkpoint_model *);
enum status checkpoint_model_read(const json_t *manifest, const char *where, struct checkpoint_model *out);
/** Is each within what options may say, and do heads divide hidden, and kv-heads heads? Products of these sizes do not
 *  overflow 64 bits.  @errors E_FORMAT naming `where` */
enum status checkpoint_model_check(const struct checkpoint_model *, const char *where);
/** Has the plan a model of these weights? Its seq may be another: shorter, or any where no weight has its length.
 *  @errors E_FORMAT naming `where`, what differs, and both */
enum status checkpoint_model_compare(const struct checkpoint_model *, const struct plan *, const char *where);

/** The option that asks for size i of the model, and its value; false: there is none. */
bool checkpoint_model_option(const struct checkpoint_model *, int i, const char **name, char value[24]);
