/* A model's weights in Hugging Face's format, by its table of names (struct published): one safetensors file or several
 * with an index, and config.json (hf_files.h).
 *
 * Each weight of Trivium is one of their tensors, or several joined (keys and values; the experts). The table says
 * the order of a tensor's axes (published_order). Import reads F64, F32, BF16 and F16, and MXFP4 of two tensors
 * (hf_blocks.h) as BF16; export writes no MXFP4. A missing or misshapen tensor is an error, and so is an unknown one,
 * unless the model leaves it out. struct hf_weights has the model's own functions. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/checkpoint/hf_files.h"
#include "lib/run/model.h"

/* Tensor `name` repeats tensor `as` (hf_again.c). TIED: only if the head is tied; otherwise `name` is a weight of its
 * own. ALWAYS: always. READ_IF_UNTIED: always; if the head is not tied, import reads `name` in place of `as`, and
 * export writes both. */
enum hf_again_when { HF_AGAIN_TIED, HF_AGAIN_ALWAYS, HF_AGAIN_READ_IF_UNTIED };
enum { HF_AGAIN_MAX = 8 };               /* rows of a model */
struct hf_again { const char *name, *as; enum hf_again_when when; };

struct hf_weights {
    const char *name;                    /* for messages: "Llama" */
    const struct published *names;
    /* Rows that import takes instead if the files have their first tensor. A name that ends in _blocks is of codes in
     * MXFP4 (hf_blocks.h). NULL: none */
    const struct published *fused;
    const struct model *model;           /* which builds it; of rows that share options the one that has them */
    /* Read and write config.json. @errors E_DATA: no file; E_FORMAT: a model that Trivium does not compute; E_IO,
     * E_MEMORY */
    enum status (*config_read)(const char *path, struct checkpoint_model *out);
    /* Find the sizes of a model whose files may lack config.json, or the number of heads in it. NULL: config.json has
     * all sizes, and heads must be 0. @errors as config_read; E_CONFIG */
    enum status (*sizes_read)(const struct hf_files *, const char *config, int64_t heads,
                              struct checkpoint_model *out);
    enum status (*config_write)(const char *path, const struct checkpoint_model *, enum dtype);
    enum status (*check)(const struct checkpoint_model *);   /* can the format hold the model? @errors E_CONFIG */
    bool (*is_left_out)(const char *tensor);   /* does import ignore this tensor? NULL: it ignores none */
    const struct hf_again *again;        /* ends with {NULL}; NULL: none */
    void (*old_name)(const char *tensor, char old[PUBLISHED_NAME_MAX]);   /* its name in older files; NULL: the same */
};

/** Convert the files at `path` to a weights-only checkpoint in `save`, in the precision of the files, one piece at a
 *  time. heads: the number of heads, if config.json lacks it (sizes_read), or 0. *out: the model.
 *  @errors E_USAGE: heads; E_DATA: no such file; E_FORMAT naming file and tensor; E_IO, E_MEMORY; those of
 *  checkpoint_weights_create  @collective{none} */
enum status hf_weights_import(const struct hf_weights *, const char *path, int64_t heads, const char *save,
                              struct checkpoint_model *out);

/** Write the checkpoint's weights to `path` (if larger than shard_bytes, to several files and an index; 0: to one
 *  file), and config.json in the same folder. No file may exist. dtype: N_DTYPES means fp64 if the checkpoint is fp64,
 *  otherwise fp32.
 *  @errors E_CONFIG, E_IO; those of checkpoint_read_weight  @collective{none} */
enum status hf_weights_export(const struct hf_weights *, const struct checkpoint_reader *, enum dtype, const char *path,
                              int64_t shard_bytes);
#define HF_SHARD_BYTES 5000000000 /* as save_pretrained's */

/* ---- hf_again.c, for import: tensors that repeat another one, as tied weights that some versions save twice ----
 *
 * A copy is compared before it is left out; if it differs, the file is of another model.
 * Source: huggingface/transformers, _tied_weights_keys of each model, and PreTrainedModel.tie_weights. */

/** The tensor from which a model's weight of this name is read; entry NULL: there is none. */
struct hf_tensor hf_again_find(const struct hf_weights *, const struct hf_files *, const struct checkpoint_model *,
                               const char *name);
/** *extra: the tensor only repeats another tensor, which is read. @errors E_FORMAT: it must repeat a tensor, but
 *  differs from it; E_IO */
enum status hf_again_check(const struct hf_weights *, const struct hf_files *, const struct checkpoint_model *,
                           struct hf_tensor, bool *extra);
