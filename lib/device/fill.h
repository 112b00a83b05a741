/* Filling device memory with a 64-bit pattern; part of the CUDA device. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** to[0 .. n_words) = pattern, in order on the stream. `to` is 8-byte aligned device memory. @errors E_DEVICE */
enum status fill_words(void *to, uint64_t pattern, int64_t n_words, void *stream);

#ifdef __cplusplus
}
#endif
