/* GPT-2's weights and their names in other projects: the common part of their formats (gpt_hf.h, gpt_llmc.h).
 *
 *   ours          shape          llm.c                                 Hugging Face
 *   embed.wte     (V, C)         wte, rows up to a multiple of 128     (names: gpt_published.c)
 *   embed.wpe     (T, C)         wpe
 *   hN.ln1.g/b    (C)            ln1w, ln1b
 *   hN.qkv.w, b   (3, H, D, C)   qkvw, qkvb                            transposed: (C, 3 C)
 *   hN.proj.w, b  (C, H, D)      attprojw, attprojb                    transposed: (C, C)
 *   hN.ln2.g/b    (C)            ln2w, ln2b
 *   hN.fc.w, b    (K, C)         fcw, fcb                              transposed: (C, 4 C)
 *   hN.fc2.w, b   (C, K)         fcprojw, fcprojb                      transposed: (4 C, C)
 *   head.lnf.g/b  (C)            lnfw, lnfb
 *
 * In all three formats qkv is query, key, value, each with its heads in order. So only matrices must be transposed, and
 * only for Hugging Face, whose GPT-2 stores them as (in, out) (its Conv1D, as in OpenAI's TensorFlow code). All three
 * compute the same function: GELU in its tanh form, layernorm with epsilon 1e-5, the head tied to wte, scores divided
 * by sqrt(D). */
#ifndef TRIVIUM_GPT_GPT_WEIGHTS_H
#define TRIVIUM_GPT_GPT_WEIGHTS_H

#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/run/published.h"

struct gpt_weight {
    const struct published *row;         /* of gpt_published */
    int64_t layer;                       /* 0 for a weight outside layers */
    char name[PUBLISHED_NAME_MAX];       /* ours */
    struct shape shape;                  /* whole */
    int64_t rows, columns;               /* as a matrix: columns are the input's; a vector is 1 row */
    int n_axes;                          /* in Hugging Face's file, with the shape `theirs`: */
    int64_t theirs[PUBLISHED_AXES];
    bool transposed;                     /* (columns, rows) */
};

/* In llm.c's order: row by row of the table, each over all layers. */
struct gpt_weights { struct checkpoint_model model; struct gpt_weight *weight; int n; };

/** Is it a GPT-2, as these files (named in the refusal) hold: a tied head, dense layers, an MLP of 4 x hidden?
 *  @errors E_CONFIG */
enum status gpt_weights_check(const struct checkpoint_model *, const char *files);

/** The list for a model of these sizes, already checked. @errors E_MEMORY; those of gpt_build  @collective{none} */
enum status gpt_weights_init(struct gpt_weights *, const struct checkpoint_model *);
void gpt_weights_fini(struct gpt_weights *);

static inline int64_t gpt_weight_n(const struct gpt_weight *w) { return w->rows * w->columns; }

/** to (columns, rows) = from (rows, columns)^T, elements of dtype. */
void gpt_transpose(void *to, const void *from, int64_t rows, int64_t columns, enum dtype);

/* A format as a source of weights: dtype of the i-th of the list, and its elements, in our order. */
struct gpt_source {
    const char *path;
    enum dtype (*dtype)(const struct gpt_source *, int i);
    enum status (*read)(const struct gpt_source *, int i, void *to);
    void *self;
};

/** Write a weights-only checkpoint into `save` from the source, in its precision.
 *  @errors those of the source and of checkpoint_weights_create; E_FORMAT naming a weight that is not finite;
 *  E_MEMORY  @collective{none} */
enum status gpt_weights_import(const struct gpt_weights *, const struct gpt_source *, const char *save);

/* A format as a sink: called for each weight of the list in order, with its elements in our order and this dtype. */
typedef enum status gpt_sink(void *self, const struct gpt_weight *, const void *elements);

/** Pass every weight of the checkpoint to the sink. @errors those of checkpoint_read_weight and of the sink;
 *  E_MEMORY  @collective{none} */
enum status gpt_weights_export(const struct gpt_weights *, const struct checkpoint_reader *, enum dtype, gpt_sink *,
                               void *self);

#endif
