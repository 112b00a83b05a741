/* Between text and tokens, for `trivium generate`. This is the place for a tokenizer: its encode and its decode stand behind these functions. */
#ifndef TRIVIUM_DRIVER_GENERATE_TEXT_H
#define TRIVIUM_DRIVER_GENERATE_TEXT_H

#include "lib/base/status.h"
#include <stdint.h>
#include <stdio.h>

/** The tokens of a text for a model of this vocabulary. *tokens is to be freed, also after a failure.
 *  @errors E_CONFIG: the model's tokens are no bytes, and there is no tokenizer  @collective{none} */
enum status text_encode(const char *text, int64_t vocab, int32_t **tokens, int64_t *n);

/** "1,2,3": the tokens themselves. *tokens is to be freed, also after a failure.
 *  @errors E_USAGE: no such list; E_CONFIG: a token that the vocabulary has not  @collective{none} */
enum status text_read_tokens(const char *list, int64_t vocab, int32_t **tokens, int64_t *n);

/** Write what the token says, and flush: its byte; of a model whose tokens are no bytes, its number and a blank.
 *  @errors E_IO  @collective{none} */
enum status text_print(FILE *, int32_t token, int64_t vocab);

#endif
