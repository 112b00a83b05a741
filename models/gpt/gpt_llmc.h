/* Weights in llm.c's model format.
 *
 *   256 int32     magic 20240326, version, max_seq_len, vocab_size, num_layers, num_heads, channels, padded_vocab_size,
 *                 zeros
 *   the weights   in the order of gpt_weights.h, each over all layers: wte (padded_vocab_size, C), wpe, ln1w (L, C),
 *                 ln1b, qkvw (L, 3 C, C), ...
 *
 * Version 3 has all weights in fp32, version 5 all in bf16; both little-endian. Rows of wte beyond the vocabulary are
 * padding, up to a multiple of 128: ignored on import, zero on export. Versions before 3 have no padding; they
 * are refused.
 *
 * Source: karpathy/llm.c, train_gpt2.c (gpt2_build_from_checkpoint) and llmc/utils.h. */
#pragma once

#include "lib/checkpoint/checkpoint_tensor.h"

/** Convert the file at `path` to a weights-only checkpoint in `save`, in the file's precision. heads must be 0, because
 *  the file has them. *out: the model's sizes.
 *  @errors E_USAGE: heads; E_DATA: no such file; E_FORMAT: its header, or its size; E_IO, E_MEMORY; those of
 *  checkpoint_weights_create  @collective{none} */
enum status gpt_llmc_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);

/** Write the checkpoint's weights to `path`, which must not exist, rounded to dtype: FP32 or N_DTYPES (version 3), or
 *  BF16 (version 5).
 *  @errors E_USAGE: another dtype; E_IO; E_CONFIG: sizes that do not fit the header; those of checkpoint_read_weight
 *  @collective{none} */
enum status gpt_llmc_export(const struct checkpoint_reader *, enum dtype, const char *path);
/** Can llm.c's files hold this model? @errors E_CONFIG: an untied head, experts  @collective{none} */
enum status gpt_llmc_check(const struct checkpoint_model *);
