/* Weights in Hugging Face's GPT-2 format: safetensors files, with their config.json (lib/checkpoint/hf_files.h).
 * The names are in gpt_weights.h.
 *
 * Import: F32, F16, BF16 and F64, names with or without the prefix "transformer." (GPT2LMHeadModel.save_pretrained
 * writes it; the older files of the openai-community/gpt2 models lack it). The head is tied, so lm_head.weight is
 * accepted if it equals wte.weight byte by byte. The causal masks of old files (h.N.attn.bias, h.N.attn.masked_bias)
 * are left out. Any other tensor, and a missing or misshapen one, is refused, and a config.json of another function
 * (activation, epsilon or scale; gpt_hf_config.c has all its keys). The number of heads is only in config.json.
 *
 * Export: as save_pretrained does, with "transformer." and without lm_head.weight.
 *
 * Source: huggingface/transformers, models/gpt2/modeling_gpt2.py (Conv1D, gelu_new) and configuration_gpt2.py. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"

/** Convert the files at `path` to a weights-only checkpoint in `save`, in their precision, tensor by tensor. heads 0
 *  means n_head of config.json, or hidden / 64 without that file. *out: the model's sizes.
 *  @errors E_DATA: no such file; E_FORMAT naming file and tensor; E_CONFIG: heads, other than config.json's; E_IO,
 *  E_MEMORY; those of checkpoint_weights_create  @collective{none} */
enum status gpt_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);

/** Write the checkpoint's weights to `path`, and config.json into the same folder; neither file may exist.
 *  dtype: as in hf_weights_export.  @errors those of hf_weights_export  @collective{none} */
enum status gpt_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** Can Hugging Face's files hold this model? @errors E_CONFIG: an untied head, experts  @collective{none} */
enum status gpt_hf_check(const struct checkpoint_model *);

/* ---- config.json (gpt_hf_config.c) ---- */
/** Read the model's sizes from the file.
 *  @errors E_DATA: there is no file; E_FORMAT: it describes no GPT-2 that Trivium computes */
enum status gpt_hf_config_read(const char *path, struct checkpoint_model *out);

/** Write config.json to `path`. @errors E_IO, E_MEMORY */
enum status gpt_hf_config_write(const char *path, const struct checkpoint_model *, enum dtype);
