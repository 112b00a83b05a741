/* Tokens of an exported model: ids of special tokens in config.json, and the tokenizer's files. Without ids in
 * config.json, transformers uses the family's defaults: generation with a Llama then ends at token 2, whatever this
 * token is. No function here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"

/* Values for config.json: a number, a list of numbers, or null. folder: of the tokenizer, borrowed. */
struct hf_tokens { json_t *bos, *eos, *pad; const char *folder; };

/** Find the ids of a model's special tokens: in the tokenizer's folder (generation_config.json, otherwise what
 *  tokenizer_config.json names, otherwise <|endoftext|> of the vocabulary), otherwise of a published vocabulary of that
 *  size, otherwise null. folder "": what import has kept in the checkpoint's folder `step`, where the imported
 *  config.json's ids come first. The caller calls hf_tokens_fini in any case. @errors E_DATA: the folder has no
 *  tokenizer; E_CONFIG: an id beyond the vocabulary; E_FORMAT, E_MEMORY */
enum status hf_tokens_init(struct hf_tokens *, const struct checkpoint_model *, const char *folder, const char *step);
void hf_tokens_fini(struct hf_tokens *);

/** Put the ids into the config.json of an exported file at `path`, and copy the tokenizer's files there. None of them
 *  may exist there. @errors E_IO; those of hf_config_load */
enum status hf_tokens_write(const struct hf_tokens *, const char *path);

/** Keep, in the folder `step` of a checkpoint that is being imported from the file at `path`, the tokenizer's files
 *  next to that file, and the ids in its config.json that are tokens below vocab. @errors E_IO; those of
 *  hf_config_load */
enum status hf_tokens_keep(const char *path, int64_t vocab, const char *step);
