/* Check an accepted safetensors file: see the head of lib/checkpoint/safetensors.h. */
#pragma once

#include "lib/checkpoint/safetensors.h"

/** Open a file with these bytes; if it is accepted, check every entry. */
void safetensors_must_hold(const void *bytes, int64_t n_bytes);
