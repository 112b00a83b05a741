/* Tokens that texts have, or that mean something of their own: no model should put another mark in their place. */
#pragma once

#include "lib/data/data.h"

/* first <= token < end; what: they are, for messages. */
struct data_taken { int64_t first, end; const char *what; };

/** All of a tokenizer's; of data that hold tokens already the special ones, where the format or the size of the
 *  vocabulary (50257: GPT-2's) says whose they are. first = end: none is known.  @collective{none} */
struct data_taken data_taken(const struct data_file *, int64_t vocab);
