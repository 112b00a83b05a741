/* Options that --sums fixed (lib/program/sums.h) excludes. A technique refuses its own options itself. */
#include "lib/run/plan.h"

#include <inttypes.h>
#include <string.h>

static bool is_power_of_two(int64_t n) { return (n & (n - 1)) == 0; }

static enum status check_halves(const struct plan *p) {
    const struct { const char *name; int64_t n; } halved[] = {
        {"dp", p->mesh.dp}, {"tp", p->mesh.tp}, {"micro-batch", p->micro_batch},
        {"global-batch / dp / micro-batch", p->n_microbatches}};
    for (size_t i = 0; i < sizeof halved / sizeof *halved; i++)
        if (!is_power_of_two(halved[i].n))
            return FAIL(E_CONFIG, "sums=fixed adds by halves, and %s=%" PRId64 "; use a power of two, or sums=fast",
                        halved[i].name, halved[i].n);
    return OK;
}

static enum status check_numbers(const struct plan *p) {
    const char *precision = p->precision == PRECISION_FP64 ? "fp64" : p->precision == PRECISION_FP16 ? "fp16" : NULL;
    if (p->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "sums=fixed is only there on the cpu, and device=cuda; use device=cpu, or sums=fast");
    if (precision)
        return FAIL(E_CONFIG,
                    "sums=fixed is only there in fp32 and bf16, and precision=%s; use one of them, or sums=fast",
                    precision);
    return OK;
}

/* Refuse options whose sums have no fixed order. */
static enum status check_order(const struct plan *p) {
    const struct { const char *name, *what; int64_t n, most; } without[] = {
        {"cp", "attention over shards of a sequence", p->mesh.cp, 1},
        {"experts", "tokens that are routed", model_options(p)->experts, 0},
        {"loss-chunk", "gradients of the head that are summed by tokens", p->loss_chunk, 0}};
    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (without[i].n > without[i].most)
            return FAIL(E_CONFIG,
                        "sums=fixed has no order for %s, and %s=%" PRId64 "; use %s=%" PRId64 ", or sums=fast",
                        without[i].what, without[i].name, without[i].n, without[i].name, without[i].most);
    if (plan_is_asynchronous(p))
        return FAIL(E_CONFIG,
                    "sums=fixed makes the same updates in every layout, and asynchronous steps make others; use %s, or "
                    "sums=fast", plan_synchronous_option(p));
    return OK;
}

/* Refuse --comm-algorithm: fixed sums over ranks have their own algorithm (comm_fix_sums). */
static enum status check_algorithm(const struct plan *p) {
    const struct comm_options *c = comm_options(p);
    if (!c->algorithm[0] || !strcmp(c->algorithm, "auto")) return OK;
    return FAIL(E_CONFIG, "sums=fixed adds ranks as a tree, and comm-algorithm=%.64s says how else; use "
                "comm-algorithm=auto, or sums=fast", c->algorithm);
}

enum status plan_check_sums(const struct plan *p) {
    if (p->sums == PLAN_SUMS_FAST) return OK;
    TRY(check_numbers(p));
    TRY(check_order(p));
    TRY(check_algorithm(p));
    return check_halves(p);
}
