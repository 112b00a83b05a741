/* parses: lib/base lib/device/dtype.c lib/checkpoint/safetensors_read.c tests/fuzz/safetensors_checks.c */
/* A whole safetensors file. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/checks.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    safetensors_must_hold(data, (int64_t)size);
    return 0;
}
