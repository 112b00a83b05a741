/* parses: lib/base lib/data */
/* A file of tokens: llm.c's .bin, or any text. The first two bytes choose how it is cut into samples. */
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

static int64_t token_bytes(enum data_format format) {
    return format == DATA_TEXT ? 1 : format == DATA_LLMC_U16 ? 2 : 4;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct fuzz_bytes in = {data, size};
    int64_t T = 1 + (int64_t)fuzz_number(&in, 1), vocab = (int64_t)1 << (1 + fuzz_number(&in, 1) % 20);
    struct data_file *f;
    struct data_split train, val;
    enum status status = data_open(fuzz_file(in.at, in.left), &f);
    MUST(status == OK ? f != NULL : !f && (status == E_FORMAT || (status == E_DATA && in.left == 0)));
    if (status != OK) return 0;
    int64_t header = data_format_of(f) == DATA_TEXT ? 0 : 1024;
    MUST(data_n_tokens(f) >= 1 && header + data_n_tokens(f) * token_bytes(data_format_of(f)) == (int64_t)in.left);
    if (data_split_whole(f, T, &train) == OK) samples_must_lie_inside(&train, vocab);
    if (data_split_tail(f, T, 0.25, &train, &val) == OK) {
        samples_must_lie_inside(&train, vocab);
        samples_must_lie_inside(&val, vocab);
        MUST(train.first + train.n_tokens == val.first);
    }
    data_close(&f);
    return 0;
}
