/* Conversion of text and tokens for `trivium generate`, by a byte-level BPE (lib/data/bpe.h) or one token per byte. */
#pragma once

#include "lib/base/status.h"
#include "lib/data/bpe.h"
#include <stdint.h>
#include <stdio.h>

/** The n tokens of a text for a model of this vocabulary. @param bpe NULL: each byte is a token. The caller frees
 *  *tokens, also after a failure.
 *  @errors E_CONFIG: without a tokenizer, vocab is not 256; or the tokenizer has more tokens than the model
 *  @collective{none} */
enum status text_encode(const char *text, int64_t vocab, struct bpe *bpe, int32_t **tokens, int64_t *n);

/** Read the n tokens of a list "1,2,3". The caller frees *tokens, also after a failure.
 *  @errors E_USAGE: not a list; E_CONFIG: a token is not in the vocabulary  @collective{none} */
enum status text_read_tokens(const char *list, int64_t vocab, int32_t **tokens, int64_t *n);

/** Write a token's bytes, and flush. If there is no tokenizer and vocab is not 256, write the token's number and a
 *  blank. escape: write control bytes except tab and newline as \x1b, so that a terminal does not execute them.
 *  @errors E_IO  @collective{none} */
enum status text_print(FILE *, int32_t token, int64_t vocab, const struct bpe *bpe, bool escape);
