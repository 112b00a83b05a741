/* A model's weights in Hugging Face's format, by its table of names (struct published): one safetensors file or several
 * with an index, and config.json (hf_files.h).
 *
 * Each weight of ours is one of theirs, or several, one after the other (keys and values; of each expert). A matrix is
 * transposed where its row of the table says so (published_is_transposed). Import reads F64, F32, BF16 and F16; a
 * missing or misshapen tensor is refused, and any that is none of the model's, but for those that it leaves out. What
 * else a model decides is a row of functions. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"
#include "lib/checkpoint/hf_files.h"
#include "lib/run/model.h"

/* Tensor `name` is tensor `as` once more (hf_again.h): where the head is tied (else it is a weight of its own), or
 * always. A third kind is read in place of the other where the head is not tied, and export then writes both. */
enum hf_again_when { HF_AGAIN_TIED, HF_AGAIN_ALWAYS, HF_AGAIN_READ_IF_UNTIED };
enum { HF_AGAIN_MAX = 8 };               /* rows of a model */
struct hf_again { const char *name, *as; enum hf_again_when when; };

struct hf_weights {
    const char *name;                    /* for messages: "Llama" */
    const struct published *names;
    enum status (*build)(const struct plan *, struct program *);
    /* config.json, both ways. @errors E_DATA: not there; E_FORMAT: no model that Trivium computes; E_IO, E_MEMORY */
    enum status (*config_read)(const char *path, struct checkpoint_model *out);
    /* The sizes of a model whose files may lack config.json, or heads; NULL: config.json has all of them, and heads
     * must be 0. @errors as config_read; E_CONFIG */
    enum status (*sizes_read)(const struct hf_files *, const char *config, int64_t heads,
                              struct checkpoint_model *out);
    enum status (*config_write)(const char *path, const struct checkpoint_model *, enum dtype);
    enum status (*check)(const struct checkpoint_model *);   /* may it be written so? @errors E_CONFIG */
    bool (*is_left_out)(const char *tensor);   /* nothing of it is read; NULL: all is */
    const struct hf_again *again;        /* ends with {NULL}; NULL: none */
    void (*old_name)(const char *tensor, char old[PUBLISHED_NAME_MAX]);   /* what older files call it; NULL: the same */
};

/** Convert the files at `path` to a weights-only checkpoint in `save`, in their precision, a piece at a time. heads:
 *  0, or what config.json does not say (sizes_read). *out: the model.
 *  @errors E_USAGE: heads; E_DATA: no such file; E_FORMAT naming file and tensor; E_IO, E_MEMORY; those of
 *  checkpoint_weights_create  @collective{none} */
enum status hf_weights_import(const struct hf_weights *, const char *path, int64_t heads, const char *save,
                              struct checkpoint_model *out);

/** Write the checkpoint's weights to `path` (above shard_bytes to several files and an index; 0: to one), and
 *  config.json in the same folder; no file may exist. dtype: N_DTYPES: fp64 if the checkpoint is, else fp32.
 *  @errors E_CONFIG, E_IO; those of checkpoint_read_weight  @collective{none} */
enum status hf_weights_export(const struct hf_weights *, const struct checkpoint_reader *, enum dtype, const char *path,
                              int64_t shard_bytes);
#define HF_SHARD_BYTES 5000000000 /* as save_pretrained's */
