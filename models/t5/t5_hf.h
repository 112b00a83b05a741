/* Weights in Hugging Face's T5 format, T5ForConditionalGeneration (lib/checkpoint/hf_weights.h; t5_published.c has the
 * names).
 *
 * What older files say twice is left out: the table as encoder.embed_tokens and decoder.embed_tokens, and, where it is
 * tied, as lm_head. Where it is another table, the file is refused. Cross-attention's table of distances, which no
 * version of T5 reads, is left out, too. A config.json of another
 * function is refused: a gated MLP (T5 1.1), another epsilon than 1e-6, other buckets than 32 up to 128, heads that are
 * not as wide as d_model says, stacks of different depths.
 *
 * Source: huggingface/transformers, models/t5/modeling_t5.py and configuration_t5.py. */
#ifndef TRIVIUM_T5_T5_HF_H
#define TRIVIUM_T5_T5_HF_H

#include "lib/checkpoint/checkpoint_tensor.h"

/** As hf_weights_import. @errors those  @collective{none} */
enum status t5_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);
/** As hf_weights_export, in files of at most HF_SHARD_BYTES. @errors those  @collective{none} */
enum status t5_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** Do such files have a name for it? @errors E_CONFIG: no t5  @collective{none} */
enum status t5_hf_check(const struct checkpoint_model *);

/* ---- config.json (t5_hf_config.c) ---- */

/** The model that config.json says.
 *  @errors E_DATA: it is not there; E_FORMAT: it says no T5 that Trivium computes */
enum status t5_hf_config_read(const char *path, struct checkpoint_model *out);
/** @errors E_IO, E_MEMORY */
enum status t5_hf_config_write(const char *path, const struct checkpoint_model *, enum dtype);

#endif
