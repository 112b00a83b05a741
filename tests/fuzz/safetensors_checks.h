/* What holds of a safetensors file that was accepted: see the head of lib/checkpoint/safetensors.h. */
#pragma once

#include "lib/checkpoint/safetensors.h"

/** Open a file with these bytes; when it is accepted, check every entry. */
void safetensors_must_hold(const void *bytes, int64_t n_bytes);
