/* Between text and tokens, for `trivium generate`: by a byte-level BPE (lib/data/bpe.h), or a token a byte. */
#pragma once

#include "lib/base/status.h"
#include "lib/data/bpe.h"
#include <stdint.h>
#include <stdio.h>

/** The tokens of a text for a model of this vocabulary. @param bpe NULL: a token is a byte. The caller frees *tokens,
 *  also after a failure.
 *  @errors E_CONFIG: the model's tokens are no bytes, and there is no tokenizer; or the tokenizer has more tokens than
 *  the model
 *  @collective{none} */
enum status text_encode(const char *text, int64_t vocab, struct bpe *bpe, int32_t **tokens, int64_t *n);

/** "1,2,3": the n tokens themselves. The caller frees *tokens, also after a failure.
 *  @errors E_USAGE: no such list; E_CONFIG: a token that the vocabulary has not  @collective{none} */
enum status text_read_tokens(const char *list, int64_t vocab, int32_t **tokens, int64_t *n);

/** Write a token, and flush: its bytes, or its number and a blank if the model's tokens are no bytes and there is no
 *  tokenizer. escape: write control bytes, but tab and newline, as \x1b; a terminal would obey them.
 *  @errors E_IO  @collective{none} */
enum status text_print(FILE *, int32_t token, int64_t vocab, const struct bpe *bpe, bool escape);
