/* Weights in Hugging Face's BERT format, BertForMaskedLM (lib/checkpoint/hf_weights.h; bert_published.c has the names).
 *
 * Import also reads files of BertForPreTraining, without their pooler and second head (cls.seq_relationship), and the
 * old names of norms, gamma and beta. If config.json ties the head, cls.predictions.decoder repeats the word embeddings
 * and cls.predictions.bias. Import leaves the decoder out if it equals these byte by byte, else it refuses the file. An
 * untied head has its bias under both names (bert_hf.c). A config.json of another function is refused: an activation
 * other than gelu, an epsilon other than 1e-12, relative positions, a decoder.
 *
 * Source: huggingface/transformers, models/bert/modeling_bert.py and configuration_bert.py. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"

/** As hf_weights_import. @errors those of hf_weights_import  @collective{none} */
enum status bert_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);
/** As hf_weights_export, in files of at most HF_SHARD_BYTES. @errors those of hf_weights_export  @collective{none} */
enum status bert_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** Can Hugging Face's files hold this model? @errors E_CONFIG: no bert  @collective{none} */
enum status bert_hf_check(const struct checkpoint_model *);

/* ---- config.json (bert_hf_config.c) ---- */

/** Read the model's sizes from config.json.
 *  @errors E_DATA: there is no file; E_FORMAT: it describes no BERT that Trivium computes */
enum status bert_hf_config_read(const char *path, struct checkpoint_model *out);
/** @errors E_IO, E_MEMORY */
enum status bert_hf_config_write(const char *path, const struct checkpoint_model *, enum dtype);
