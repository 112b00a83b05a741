/* The arithmetic of a step. See arithmetic.h. */
#include "lessons/00-first-run/arithmetic/arithmetic.h"

enum status batch_share(const struct batch *b, int64_t *out) {
    if (b->global_batch % b->dp)
        return FAIL(E_CONFIG, "dp=%lld does not divide global-batch=%lld; change one of them", (long long)b->dp,
                    (long long)b->global_batch);
    *out = b->global_batch / b->dp;
    return OK;
}

enum status batch_microbatches(const struct batch *b, int64_t *out) {
    int64_t share = 0;
    TRY(batch_share(b, &share));
    if (share % b->micro_batch)
        return FAIL(E_CONFIG,
                    "micro-batch=%lld does not divide a replica's share of %lld sequences; use a divisor of it",
                    (long long)b->micro_batch, (long long)share);
    *out = share / b->micro_batch;
    return OK;
}

enum status batch_tokens(const struct batch *b, int64_t *out) {
    *out = b->global_batch * b->seq;
    return OK;
}

enum status batch_mfu(const struct batch *b, double flops_per_token, double step_s, double peak_flops, double *out) {
    int64_t tokens = 0;
    TRY(batch_tokens(b, &tokens));
    *out = flops_per_token * (double)tokens / (step_s * peak_flops);
    return OK;
}
