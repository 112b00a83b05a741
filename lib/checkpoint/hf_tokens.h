/* Tokens of an exported model: ids of special tokens in config.json, and the tokenizer's files. Without ids in
 * config.json, transformers uses the family's defaults: generation with a Llama then ends at token 2, whatever this
 * token is. No function here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"

/* Values for config.json: a number, a list of numbers, or null. */
struct hf_tokens { json_t *bos, *eos, *pad; };

/** Find the ids of a model's special tokens: in the tokenizer's folder (generation_config.json, otherwise what
 *  tokenizer_config.json names, otherwise <|endoftext|> of the vocabulary), otherwise of a published vocabulary of that
 *  size, otherwise null. folder "": there is no folder. The
 *  caller calls hf_tokens_fini in any case. @errors E_DATA: the folder has no tokenizer; E_CONFIG: an id beyond the
 *  vocabulary; E_FORMAT, E_MEMORY */
enum status hf_tokens_init(struct hf_tokens *, const struct checkpoint_model *, const char *folder);
void hf_tokens_fini(struct hf_tokens *);

/** Put the ids into the config.json of an exported file at `path`, and copy the tokenizer's files from `folder` there.
 *  None of them may exist there. @errors E_IO; those of hf_config_load */
enum status hf_tokens_write(const struct hf_tokens *, const char *folder, const char *path);
