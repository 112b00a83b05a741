/* parses: lib/base lib/device lib/checkpoint/safetensors_read.c lib/checkpoint/checkpoint_manifest.c
 * lib/checkpoint/checkpoint_files.c lib/checkpoint/checkpoint_latest.c lib/checkpoint/checkpoint_inspect.c
 * lib/checkpoint/checkpoint_piece.c */
/* `trivium checkpoint inspect` of a checkpoint with two files. The input is the header of both. Its first two bytes are
 * the number of bytes of tensors that follow. Sizes and checksums in the manifest are right, because otherwise no
 * mutation would get past them. */
#include "lib/checkpoint/checkpoint.h"
#include "tests/fuzz/fuzz.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

static void write_manifest(size_t bytes, uint64_t hash) {
    char text[1024];
    int n = snprintf(text, sizeof text,
                     "{\"format\": \"trivium checkpoint\", \"version\": 1, \"step\": \"3\", \"update\": \"3\", "
                     "\"samples\": \"24\", \"seed\": \"1\", \"shards\": ["
                     "{\"file\": \"a\", \"bytes\": \"%zu\", \"xxh3\": \"%016" PRIx64
                     "\"}, {\"file\": \"b\", \"bytes\": \"%zu\", \"xxh3\": \"%016" PRIx64 "\"}]}",
                     bytes, hash, bytes, hash);
    fuzz_write("manifest.json", text, (size_t)n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    size_t n_data = fuzz_number(&in, 2);
    uint64_t header = in.left;
    size_t bytes = 8 + header + n_data;
    unsigned char *file = calloc(1, bytes);
    MUST(file);
    memcpy(file, &header, 8);
    if (header) memcpy(file + 8, in.at, header);
    fuzz_write("a", file, bytes);
    fuzz_write("b", file, bytes);
    write_manifest(bytes, XXH3_64bits(file, bytes));
    enum status status = checkpoint_inspect(fuzz_folder(), fuzz_nowhere());
    MUST(status == OK || status == E_FORMAT);
    free(file);
    return 0;
}
