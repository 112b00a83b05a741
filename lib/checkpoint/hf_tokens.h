/* What an exported model says of tokens: ids of special ones in config.json, and the tokenizer's files. A
 * config.json without ids has its family's, and generation in transformers ends at them: a Llama's at token 2, whatever
 * that is. Nothing here is collective. */
#pragma once

#include "lib/checkpoint/checkpoint.h"

/* Values for config.json: a number, a list of numbers, or null. */
struct hf_tokens { json_t *bos, *eos, *pad; };

/** Ids of a model's special tokens: those of the tokenizer's folder (generation_config.json, else <|endoftext|> of
 *  vocab.json), else those of a published vocabulary of its size, else null. folder "": none. hf_tokens_fini in any
 *  case.  @errors E_DATA: the folder has no tokenizer; E_CONFIG: an id beyond the vocabulary; E_FORMAT, E_MEMORY */
enum status hf_tokens_init(struct hf_tokens *, const struct checkpoint_model *, const char *folder);
void hf_tokens_fini(struct hf_tokens *);

/** Put the ids into the config.json of an exported file at `path`, and copy the folder's files of a tokenizer there.
 *  None of them may be there.  @errors E_IO; those of hf_config_load */
enum status hf_tokens_write(const struct hf_tokens *, const char *folder, const char *path);
