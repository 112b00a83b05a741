/* From a file to samples: split the tokens, order the samples, read one sample.
 *
 *   tokens   | 0 1 2 3 | 4 5 6 7 | 8        T = 4, 9 tokens: (9 - 1) / 4 = 2 samples
 *   targets  | 1 2 3 4 | 5 6 7 8 |          the last target of a sample is the first token of the next
 */
#include "lib/base/integer.h"
#include "lib/base/rng.h"
#include "lib/data/clicks.h"
#include "lib/data/data_ahead.h"
#include <string.h>

/* A sample needs T + 1 tokens: its T tokens and the target of the last one. */
static enum status check_part(const struct data_split *split, const char *part, double val_fraction) {
    if (split->n_tokens > split->T) return OK;
    return FAIL(E_DATA, "%s: the %s part has %lld of %lld tokens (val-fraction %g), and one sample needs seq+1 = %lld; "
                "use a longer file, a smaller --seq or another --val-fraction (0: no evaluation)",
                data_path(split->file), part, (long long)split->n_tokens, (long long)data_n_tokens(split->file),
                val_fraction, (long long)split->T + 1);
}

static enum status check_seq(int64_t T) {
    return T >= 1 ? OK : FAIL(E_CONFIG, "seq=%lld: a sample has at least 1 token; use --seq 1 or more", (long long)T);
}

enum status data_split_tail(const struct data_file *file, int64_t T, double val_fraction, struct data_split *train,
                            struct data_split *val) {
    TRY(check_seq(T));
    if (!(val_fraction >= 0 && val_fraction < 1))
        return FAIL(E_CONFIG, "val-fraction=%g is not in [0, 1); use 0.1, or 0 for no evaluation", val_fraction);
    int64_t n = data_n_tokens(file), n_val = (int64_t)(val_fraction * (double)n);
    *train = (struct data_split){file, 0, n - n_val, T, NULL};
    *val = (struct data_split){file, n - n_val, n_val, T, NULL};
    if (val_fraction == 0) return data_split_whole(file, T, train);
    TRY(check_part(train, "training", val_fraction));
    return check_part(val, "validation", val_fraction);
}

enum status data_split_whole(const struct data_file *file, int64_t T, struct data_split *out) {
    TRY(check_seq(T));
    int64_t n = data_n_tokens(file);
    *out = (struct data_split){file, 0, n, T, NULL};
    if (n > T) return OK;
    return FAIL(E_DATA, "%s has %lld tokens, and one sample needs seq+1 = %lld; use a longer file or a smaller --seq",
                data_path(file), (long long)n, (long long)T + 1);
}

int64_t data_split_samples(const struct data_split *split) {
    return split->n_tokens > split->T ? (split->n_tokens - 1) / split->T : 0;
}

int64_t data_shuffled(const struct data_split *split, uint64_t seed, int64_t s) {
    uint64_t n = (uint64_t)data_split_samples(split), epoch = (uint64_t)s / n, place = (uint64_t)s % n;
    return (int64_t)rng_permute(seed, rng_stream("data.shuffle"), epoch, n, place);
}

static int64_t largest_of(const struct data_file *file) {
    int64_t largest = 0;
    for (int64_t i = 0; i < data_n_tokens(file); i++) largest = max64(largest, data_token(file, i));
    return largest;
}

static enum status refuse(const struct data_file *file, int64_t i, int64_t token, int64_t vocab) {
    int64_t place;
    const char *path = data_file_of(file, i, &place);
    if (token < 0)
        return FAIL(E_DATA, "%s: token %lld at position %lld is negative; tokenize the text again", path,
                    (long long)token, (long long)place);
    return FAIL(E_DATA,
                "%s: token %lld at position %lld is not below vocab=%lld; use --vocab %llu or more, or "
                "the data this model was made for",
                path, (long long)token, (long long)place, (long long)vocab, (unsigned long long)largest_of(file) + 1);
}

enum status data_sample(const struct data_split *split, int64_t i, int64_t vocab, int32_t *tokens, int32_t *targets) {
    int64_t T = split->T, first = split->first + i * T;
    if (i < 0 || i >= data_split_samples(split))
        return FAIL(E_INTERNAL, "%s: sample %lld of %lld was requested; please report this", data_path(split->file),
                    (long long)i, (long long)data_split_samples(split));
    const int32_t *ahead = split->ahead ? data_ahead_take(split->ahead, i) : NULL;
    if (ahead) {
        memcpy(tokens, ahead, (size_t)T * sizeof *tokens);
        memcpy(targets, ahead + 1, (size_t)T * sizeof *targets);
        return OK;
    }
    for (int64_t t = 0; t <= T; t++) {
        int64_t token = data_token(split->file, first + t);
        if (token < 0 || token >= vocab) return refuse(split->file, first + t, token, vocab);
        if (t < T) tokens[t] = (int32_t)token;
        if (t > 0) targets[t - 1] = (int32_t)token;
    }
    return OK;
}

bool data_words(const struct data_split *split, int64_t i, int64_t vocab, int64_t n_words, int32_t *words) {
    const struct data_split here = {split->file, split->first, split->n_tokens, split->T, NULL};
    bool clicks = data_format_of(split->file) == DATA_CLICKS;
    int64_t first = split->first + i * split->T;
    if (n_words != split->T + !clicks) return false;
    if (clicks) memcpy(words, clicks_sample(&here, i), (size_t)n_words * sizeof *words);
    for (int64_t t = 0; t < n_words && !clicks; t++) {
        int64_t token = data_token(split->file, first + t);
        if (token < 0 || token >= vocab) return false;
        words[t] = (int32_t)token;
    }
    return true;
}

enum status data_check(const struct data_split *split, int64_t first, int64_t n, int64_t vocab) {
    int64_t begin = split->first + first * split->T, end = n > 0 ? begin + n * split->T + 1 : begin;
    if (data_vocab(split->file) > 0 && data_vocab(split->file) <= vocab) return OK;
    for (int64_t i = begin; i < end; i++) {
        int64_t token = data_token(split->file, i);
        if (token < 0 || token >= vocab) return refuse(split->file, i, token, vocab);
    }
    return OK;
}
