/* Weights in llm.c's model format.
 *
 *   256 int32     magic 20240326, version, max_seq_len, vocab_size, num_layers, num_heads, channels, padded_vocab_size,
 *                 zeros
 *   the weights   in the order of gpt_weights.h, each over all layers: wte (padded_vocab_size, C), wpe, ln1w (L, C),
 *                 ln1b, qkvw (L, 3 C, C), ...
 *
 * Version 3 has them in fp32, version 5 in bf16, all of them; both little-endian. Rows of wte beyond the vocabulary are
 * padding: left out when read, zero when written, up to a multiple of 128. Versions before 3 had none, and are refused.
 *
 * Source: karpathy/llm.c, train_gpt2.c (gpt2_build_from_checkpoint) and llmc/utils.h. */
#ifndef TRIVIUM_GPT_GPT_LLMC_H
#define TRIVIUM_GPT_GPT_LLMC_H

#include "lib/checkpoint/checkpoint_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Make a checkpoint of weights alone in `save` of the file, in its precision. heads: 0, for the file says them. *out
 *  is what model it is.
 *  @errors E_USAGE: heads; E_DATA: no such file; E_FORMAT: its header, or its size; E_IO, E_MEMORY; and of
 *  checkpoint_weights_create  @collective{none} */
enum status gpt_llmc_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);

/** Write the checkpoint's weights to `path`, which may not be there, rounded to dtype: FP32 or N_DTYPES (version 3), or
 *  BF16 (version 5).
 *  @errors E_USAGE: another dtype; E_IO; E_CONFIG: sizes that the header has no room for; and of
 *  checkpoint_read_weight  @collective{none} */
enum status gpt_llmc_export(const struct checkpoint_reader *, enum dtype, const char *path);

#ifdef __cplusplus
}
#endif
#endif
