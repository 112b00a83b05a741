/* Weights in Hugging Face's T5 format, T5ForConditionalGeneration (lib/checkpoint/hf_weights.h; t5_published.c has the
 * names).
 *
 * Older files hold copies of shared.weight: encoder.embed_tokens, decoder.embed_tokens, and lm_head if it is tied.
 * Import leaves them out; if one of them differs, it refuses the file. Cross-attention's table of distances, which no
 * version of T5 reads, is left out, too. A config.json of another function is refused: another activation, buckets
 * other than 32 up to distance 128, stacks of different depths.
 *
 * Source: huggingface/transformers, models/t5/modeling_t5.py and configuration_t5.py. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"

/** As hf_weights_import. @errors those of hf_weights_import  @collective{none} */
enum status t5_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);
/** As hf_weights_export, in files of at most HF_SHARD_BYTES. @errors those of hf_weights_export  @collective{none} */
enum status t5_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** Can Hugging Face's files hold this model? @errors E_CONFIG: no t5  @collective{none} */
enum status t5_hf_check(const struct checkpoint_model *);

/* ---- config.json (t5_hf_config.c) ---- */

/** Read the model's sizes from config.json.
 *  @errors E_DATA: there is no file; E_FORMAT: it describes no T5 that Trivium computes */
enum status t5_hf_config_read(const char *path, struct checkpoint_model *out);
/** @errors E_IO, E_MEMORY */
enum status t5_hf_config_write(const char *path, const struct checkpoint_model *, enum dtype);
