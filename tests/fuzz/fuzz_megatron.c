/* parses: lib/base lib/data */
/* A Megatron index and its tokens. The first two bytes are the number of bytes of the index; the rest are
 * the tokens. */
#include "lib/data/data.h"
#include "tests/fuzz/fuzz.h"
#include <stdlib.h>
#include <string.h>

enum { MAX_BIN = 4096 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    size_t index = fuzz_number(&in, 2);
    char path[128];
    struct data_file *f;
    struct data_split split;
    int32_t tokens[4], targets[4];
    if (index > in.left) index = in.left;
    fuzz_write("m.idx", in.at, index);
    fuzz_write("m.bin", in.at + index, in.left - index);
    snprintf(path, sizeof path, "%s/m.bin", fuzz_folder());
    enum status status = data_open(path, &f);
    MUST(status == OK ? f != NULL : !f && (status == E_FORMAT || status == E_DATA));
    if (status != OK) return 0;
    int64_t n = data_n_tokens(f);
    MUST(data_n_files(f) == 1 && n >= 1 && data_n_sequences(f) >= 1 && data_n_documents(f) >= 0);
    /* the map is page by page: a read beyond the file is a signal, or 0 */
    for (int64_t i = 0; i < n && i < MAX_BIN; i++) (void)data_token(f, i);
    (void)data_token(f, n - 1);
    if (data_split_whole(f, 4, &split) == OK)
        for (int64_t i = 0; i < data_split_samples(&split) && i < 64; i++) {
            status = data_sample(&split, i, 50257, tokens, targets);
            MUST(status == OK || status == E_DATA);
            for (int t = 0; status == OK && t < 4; t++)
                MUST(tokens[t] >= 0 && tokens[t] < 50257 && targets[t] >= 0 && targets[t] < 50257);
        }
    data_close(&f);
    return 0;
}
