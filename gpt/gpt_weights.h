/* GPT-2's weights and their names in other projects: the common part of their formats (gpt_hf.h, gpt_llmc.h).
 *
 *   ours        shape          Hugging Face             llm.c
 *   embed.wte   (V, C)         wte.weight               wte, rows up to a multiple of 128
 *   embed.wpe   (T, C)         wpe.weight               wpe
 *   hN.ln1.g/b  (C)            h.N.ln_1.weight/bias     ln1w, ln1b
 *   hN.qkv.w    (3, H, D, C)   h.N.attn.c_attn.weight   qkvw       transposed there: (C, 3 C)
 *   hN.qkv.b    (3, H, D)      h.N.attn.c_attn.bias     qkvb
 *   hN.proj.w   (C, H, D)      h.N.attn.c_proj.weight   attprojw   transposed: (C, C)
 *   hN.proj.b   (C)            h.N.attn.c_proj.bias     attprojb
 *   hN.ln2.g/b  (C)            h.N.ln_2.weight/bias     ln2w, ln2b
 *   hN.fc.w     (K, C)         h.N.mlp.c_fc.weight      fcw        transposed: (C, 4 C)
 *   hN.fc.b     (K)            h.N.mlp.c_fc.bias        fcb
 *   hN.fc2.w    (C, K)         h.N.mlp.c_proj.weight    fcprojw    transposed: (4 C, C)
 *   hN.fc2.b    (C)            h.N.mlp.c_proj.bias      fcprojb
 *   head.lnf.g/b (C)           ln_f.weight/bias         lnfw, lnfb
 *
 * In all three formats qkv is query, key, value, each with its heads in order. So only matrices must be transposed, and
 * only for Hugging Face, whose GPT-2 stores them as (in, out) (its Conv1D, as in OpenAI's TensorFlow code). All three
 * compute the same function: GELU in its tanh form, layernorm with epsilon 1e-5, the head tied to wte, scores divided
 * by sqrt(D). */
#ifndef TRIVIUM_GPT_GPT_WEIGHTS_H
#define TRIVIUM_GPT_GPT_WEIGHTS_H

#include "lib/program/program.h"
#include "lib/checkpoint/checkpoint_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A row of the table. hf: the name, after "h.N." for a weight of each layer. input: a matrix's input channels, 'C' or
 * 'K'; 0: a vector. */
struct gpt_weight_kind { const char *ours, *hf; char input; bool in_layers, transposed; };

struct gpt_weight {
    const struct gpt_weight_kind *kind;
    int64_t layer;                       /* 0 for a weight outside layers */
    char name[NAME_MAX_LEN];             /* ours */
    struct shape shape;                  /* whole */
    int64_t rows, columns;               /* as a matrix: columns are the input's; a vector is 1 row */
};

/* In llm.c's order: row by row of the table, each over all layers. */
struct gpt_weights { struct checkpoint_model model; struct gpt_weight *weight; int n; };

/** Is it a GPT-2, as these files (named in the refusal) hold: a tied head, dense layers? @errors E_CONFIG */
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

#ifdef __cplusplus
}
#endif
#endif
