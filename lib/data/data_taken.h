/* Token ids that a model must not use as its own marks: a tokenizer's tokens, or a vocabulary's special tokens. */
#pragma once

#include "lib/data/data.h"

/* Tokens first <= token < end are taken; what: their description for messages. */
struct data_taken { int64_t first, end; const char *what; };

/** For tokenized text: all of the tokenizer's tokens. For token files: the special tokens, if the format or the size of
 *  the vocabulary (50257: GPT-2's) identifies the tokenizer. first = end: none is known.  @collective{none} */
struct data_taken data_taken(const struct data_file *, int64_t vocab);
