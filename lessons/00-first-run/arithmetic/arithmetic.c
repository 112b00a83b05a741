/* Your arithmetic. arithmetic.h says what each function has to do. The theory is in lesson 00, "What a step is".
 *
 * A function that can fail returns a status. It reports an error once, with FAIL, in a sentence with value, limit and
 * remedy:
 *
 *     if (heads % tp) return FAIL(E_CONFIG, "tp=%d does not divide heads=%d", tp, heads);
 *
 * Its callers return the error with TRY(f(...)). A function writes its result to the last argument, and returns OK.
 * Print int64_t as (long long) with %lld. */
#include "lessons/00-first-run/arithmetic/arithmetic.h"

enum status batch_share(const struct batch *b, int64_t *out) {
    (void)b, (void)out;
    return FAIL(E_TODO, "batch_share is not written yet");
}

enum status batch_microbatches(const struct batch *b, int64_t *out) {
    (void)b, (void)out;
    return FAIL(E_TODO, "batch_microbatches is not written yet");
}

enum status batch_tokens(const struct batch *b, int64_t *out) {
    (void)b, (void)out;
    return FAIL(E_TODO, "batch_tokens is not written yet");
}

enum status batch_mfu(const struct batch *b, double flops_per_token, double step_s, double peak_flops, double *out) {
    (void)b, (void)flops_per_token, (void)step_s, (void)peak_flops, (void)out;
    return FAIL(E_TODO, "batch_mfu is not written yet");
}
