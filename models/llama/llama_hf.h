/* Weights in Hugging Face's formats of Llama and its relatives (families/): one safetensors file or several with an
 * index, with their config.json (lib/checkpoint/hf_files.h).
 *
 * llama_published.c has the names. One weight of Trivium is one tensor of these files, or several in a row: keys and
 * values, gate and up, the experts' matrices. No tensor is transposed. Both projects rotate pairs of channels that are
 * half a head apart.
 * Import reads F64, F32, BF16 and F16. It leaves out tables of rotary frequencies (old files have them), and a tied
 * lm_head that equals the embedding byte by byte. It refuses any other tensor, a missing or misshapen one, and a
 * config.json of another function: another activation, positions scaled in another way than those of lib/ops/rope.h, a
 * window in a model_type whose reference has none. A model is exported as one of the first family that has its options.
 *
 * Source: huggingface/transformers, models/llama/modeling_llama.py and configuration_llama.py. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"
#include "models/llama/families/family.h"

/** Convert the files at `path` to a weights-only checkpoint in `save`, in their precision, a piece at a time. heads
 *  must be 0, because config.json has them. *out: the model.
 *  @errors E_USAGE: heads; E_DATA: no such file; E_FORMAT naming file and tensor; E_IO, E_MEMORY; those of
 *  checkpoint_weights_create  @collective{none} */
enum status llama_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);

/** Write the checkpoint's weights to `path` (above HF_SHARD_BYTES to several files and an index), and config.json
 *  into the same folder; no file may exist. dtype N_DTYPES means fp64 if the checkpoint is fp64, else fp32.
 *  @errors E_IO; those of checkpoint_read_weight  @collective{none} */
enum status llama_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** The same of a model of arch moe, whose experts have other names. @errors as llama_hf_import  @collective{none} */
enum status moe_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);
/** @errors as llama_hf_export  @collective{none} */
enum status moe_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** Can Hugging Face's files hold this model? @errors E_CONFIG: experts, biases or windows that no
 *  model_type has together  @collective{none} */
enum status llama_hf_check(const struct checkpoint_model *);

/** As llama_hf_export, with files of at most shard_bytes bytes; 0: one file. @errors as llama_hf_export */
enum status llama_hf_export_sharded(const struct checkpoint_reader *, enum dtype, const char *path,
                                    int64_t shard_bytes);
