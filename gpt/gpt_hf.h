/* Weights in Hugging Face's GPT-2 format: one safetensors file, and config.json beside it. The names are in
 * gpt_weights.h.
 *
 * Read: F32, F16, BF16 and F64, with and without "transformer." before the names. GPT2LMHeadModel.save_pretrained
 * writes them with it, and the files of the openai-community/gpt2 models, which are older, are without. lm_head.weight
 * is accepted when it is wte.weight byte by byte: the head is tied. The causal masks that old files keep
 * (h.N.attn.bias, h.N.attn.masked_bias) are left out. Any other tensor, and a missing or misshapen one, is refused; so
 * is a config.json that asks for another function (another activation, epsilon or scale). The file does not say how
 * many heads there are: config.json does.
 *
 * Written: as save_pretrained does, with "transformer." and without lm_head.weight; F32, and F64 where the checkpoint
 * is in F64.
 *
 * Source: huggingface/transformers, models/gpt2/modeling_gpt2.py (Conv1D, gelu_new) and configuration_gpt2.py. */
#ifndef TRIVIUM_GPT_GPT_HF_H
#define TRIVIUM_GPT_GPT_HF_H

#include "lib/checkpoint/checkpoint_tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Make a checkpoint of weights alone in `save` of the file, in its precision, tensor by tensor. heads 0: config.json's
 *  n_head, else hidden / 64. *out is what model it is.
 *  @errors E_DATA: no such file; E_FORMAT naming file and tensor; E_CONFIG: heads; E_IO, E_MEMORY; and of
 *  checkpoint_weights_create
 *  @collective{none} */
enum status gpt_hf_import(const char *path, int64_t heads, const char *save, struct checkpoint_model *out);

/** Write the checkpoint's weights to `path`, and config.json beside it; neither may be there. dtype: N_DTYPES, for
 *  there is no choice.
 *  @errors E_USAGE: a dtype; E_IO; and of checkpoint_read_weight  @collective{none} */
enum status gpt_hf_export(const struct checkpoint_reader *, enum dtype, const char *path);

#ifdef __cplusplus
}
#endif
#endif
