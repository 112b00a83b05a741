/* What fuzzers check of what was accepted. */
#pragma once

#include "lib/base/option.h"
#include "lib/checkpoint/safetensors.h"

/* Check accepted options: each value's text is legal, and reading it again gives the same value. */
void options_must_read_again(const struct options *);

/* Check an accepted safetensors file: see the head of lib/checkpoint/safetensors.h. */
/** Open a file with these bytes; if it is accepted, check every entry. */
void safetensors_must_hold(const void *bytes, int64_t n_bytes);
