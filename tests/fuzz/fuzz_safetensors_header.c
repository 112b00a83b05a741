/* parses: lib/base lib/device/dtype.c lib/checkpoint/safetensors_read.c tests/fuzz/safetensors_checks.c */
/* The header of a safetensors file. The first two bytes are the number of bytes of tensors that follow it. The rest of
 * the file is right, because otherwise few mutations would get past the header's length. */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/checks.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    size_t n_data = fuzz_number(&in, 2);
    uint64_t header = in.left;
    unsigned char *file = calloc(1, 8 + header + n_data);
    MUST(file);
    memcpy(file, &header, 8);
    if (header) memcpy(file + 8, in.at, header);
    for (size_t i = 0; i < n_data; i++) file[8 + header + i] = (unsigned char)i;
    safetensors_must_hold(file, (int64_t)(8 + header + n_data));
    free(file);
    return 0;
}
