/* parses: lib/base lib/data */
/* A file of tokens: llm.c's .bin, .npy, tokens without a header, or text. The first two bytes choose how it is cut into
 * samples, and the format as which it is read. */
#include "lib/data/data.h"
#include "tests/fuzz/fuzz.h"
#include <string.h>

enum { MAX_T = 256 };

static void samples_must_lie_inside(const struct data_split *split, int64_t vocab) {
    int32_t tokens[MAX_T], targets[MAX_T];
    int64_t n = data_split_samples(split);
    MUST(split->first >= 0 && split->first + split->n_tokens <= data_n_tokens(split->file));
    MUST(n >= 1 && n * split->T + 1 <= split->n_tokens);
    const int64_t chosen[] = {0, n / 2, n - 1, data_shuffled(split, 7, n)};
    for (int i = 0; i < 4; i++) {
        MUST(chosen[i] >= 0 && chosen[i] < n);
        enum status status = data_sample(split, chosen[i], vocab, tokens, targets);
        MUST(status == OK || status == E_DATA);
        for (int64_t t = 0; status == OK && t < split->T; t++)
            MUST(tokens[t] >= 0 && tokens[t] < vocab && targets[t] >= 0 && targets[t] < vocab);
    }
    MUST(data_sample(split, n, vocab, tokens, targets) == E_INTERNAL &&
         data_sample(split, -1, vocab, tokens, targets) == E_INTERNAL);
}

/* Do the tokens take all bytes of the file, except a header? */
static bool are_all(const struct data_file *f, enum data_as as, int64_t bytes) {
    enum data_format format = data_format_of(f);
    int64_t n = data_n_tokens(f);
    if (format == DATA_TEXT) return n == bytes;
    if (format == DATA_RAW) return n * (as == DATA_AS_U16 ? 2 : 4) == bytes;
    if (format == DATA_NPY) return n <= bytes - 10;
    return 1024 + n * (format == DATA_LLMC_U16 ? 2 : 4) == bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    int64_t T = 1 + (int64_t)fuzz_number(&in, 1), chosen = (int64_t)fuzz_number(&in, 1);
    int64_t vocab = (int64_t)1 << (1 + chosen % 20);
    enum data_as as = (enum data_as)(chosen / 20 % (DATA_AS_NPY + 1));
    struct data_file *f;
    struct data_split train, val;
    enum status status = data_open_as(fuzz_file(in.at, in.left), as, NULL, &f);
    MUST(status == OK ? f != NULL : !f && (status == E_FORMAT || (status == E_DATA && in.left == 0)));
    if (status != OK) return 0;
    MUST(data_n_tokens(f) >= 1 && are_all(f, as, (int64_t)in.left));
    if (data_split_whole(f, T, &train) == OK) samples_must_lie_inside(&train, vocab);
    if (data_split_tail(f, T, 0.25, &train, &val) == OK) {
        samples_must_lie_inside(&train, vocab);
        samples_must_lie_inside(&val, vocab);
        MUST(train.first + train.n_tokens == val.first);
    }
    data_close(&f);
    return 0;
}
