/* BERT's training task: some tokens of a text are masked, and BERT restores them.
 *
 * Exactly M = ceil(0.15 T) of T tokens are targets; a permutation chooses their places. All others have target -1 and
 * add nothing to the loss. M is the same for every sample, so the loss of a step is the sum over the global batch
 * divided by batch x M: no rank needs another's count. (The usual mistake is that each rank divides by its own count,
 * which makes a mean of means.) A number u, uniform in [0, 1), decides about each target:
 *
 *   u < 0.8          the token becomes mask-token
 *   0.8 <= u < 0.9   it becomes a token of the vocabulary, all equally likely
 *   0.9 <= u         it stays, and is still a target
 *
 * A sample is two segments; the place of the cut is drawn, too. (No special tokens separate them, because data of
 * lib/data is a plain stream, of any tokenizer.)
 *
 * All draws are functions of the seed and the sample's number in the run, not of the rank or the microbatch that reads
 * the sample. In another epoch a text has another number and other masks (as in RoBERTa: Liu et al. 2019, section 4.1).
 *
 * Source: Devlin et al. 2019, section 3.1, task 1. */
#include "models/bert/bert.h"

#include "lib/base/rng.h"
#include <inttypes.h>

int64_t bert_n_masked(const struct plan *p) { return (3 * p->seq + 19) / 20; }

static bool is_published(int64_t vocab) {
    static const int64_t published[] = {30522, 28996, 21128, 105879, 119547};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        if (published[i] == vocab) return true;
    return false;
}

struct own_tokens bert_own_tokens(const struct plan *p) {
    enum { PUBLISHED_MASK = 103 };
    int64_t said = bert_options(p)->mask_token, usual = is_published(p->vocab) ? PUBLISHED_MASK : p->vocab - 1;
    return (struct own_tokens){said >= 0 ? said : usual, 1, said >= 0, "mask", "mask-token"};
}

static double draw(const struct plan *p, const char *what, int64_t number, int64_t i) {
    return rng_uniform((uint64_t)p->seed, rng_stream(what), (uint64_t)(number * p->seq + i));
}

static int32_t masked(const struct plan *p, int64_t mask_token, int64_t number, int64_t i, int32_t token) {
    double u = draw(p, "bert.replace", number, i);
    if (u < 0.8) return (int32_t)mask_token;
    return u < 0.9 ? (int32_t)((double)p->vocab * draw(p, "bert.random", number, i)) : token;
}

/* The second segment's first place, 1 to T - 1: neither segment is empty (if T >= 2). */
static int64_t second_segment(const struct plan *p, int64_t number) {
    return 1 + (int64_t)((double)(p->seq - 1) * draw(p, "bert.segment", number, 0));
}

enum status bert_sample(const struct plan *p, int64_t number, int32_t *const whole[N_DATA]) {
    int64_t T = p->seq, second = second_segment(p, number), mask_token = bert_own_tokens(p).first;
    if (mask_token >= p->vocab)
        return FAIL(E_CONFIG, "mask-token=%" PRId64 " is not below vocab=%" PRId64 "; use one of the vocabulary",
                    mask_token, p->vocab);
    for (int64_t t = 0; t < T; t++) {
        whole[DATA_TARGETS][t] = -1;
        whole[DATA_SEGMENTS][t] = t >= second;
    }
    for (int64_t i = 0; i < bert_n_masked(p); i++) {
        int64_t t = (int64_t)rng_permute((uint64_t)p->seed, rng_stream("bert.mask"), (uint64_t)number, (uint64_t)T,
                                         (uint64_t)i);
        whole[DATA_TARGETS][t] = whole[DATA_TOKENS][t];
        whole[DATA_TOKENS][t] = masked(p, mask_token, number, i, whole[DATA_TOKENS][t]);
    }
    return OK;
}
