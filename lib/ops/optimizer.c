#include "lib/ops/optimizer_kernels.h"

#include "lib/base/option.h"
#include <math.h>
#include <string.h>

/* ---- the rows ---- */

#define OPTIMIZER_ROW(choice, row, word) &row,
static const struct optimizer *const ROWS[] = {EVERY_OPTIMIZER(OPTIMIZER_ROW)};

const struct optimizer *optimizer_of(enum optimizer_choice choice, double momentum) {
    const struct optimizer *o = ROWS[choice];
    return momentum == 0 && o->plain ? o->plain : o;
}

const struct optimizer *optimizer_named(const char *name) {
    for (int i = 0; i < N_OPTIMIZERS; i++)
        for (const struct optimizer *o = ROWS[i]; o; o = o->plain)
            if (!strcmp(o->name, name)) return o;
    return NULL;
}

static bool reads(const struct optimizer *o, const char *option) {
    for (int i = 0; o->reads[i]; i++)
        if (!strcmp(o->reads[i], option)) return true;
    return false;
}

enum status optimizer_check_options(const struct optimizer *mine, const struct options *options) {
    static const char *const words[] = {EVERY_OPTIMIZER(OPTIMIZER_TEXT)};
    for (int i = 0; i < N_OPTIMIZERS; i++)
        for (int k = 0; ROWS[i]->reads[k]; k++) {
            const char *option = ROWS[i]->reads[k];
            if (reads(mine, option) || options_source(options, option) == FROM_DEFAULT) continue;
            return FAIL(E_CONFIG, "%s is read by optimizer=%s, and not by %s; leave %s out, or use optimizer %s",
                        option, words[i], mine->name, option, words[i]);
        }
    return OK;
}

/* ---- the update ---- */

static bool is_floating(enum dtype d) { return d == FP64 || d == FP32 || d == BF16 || d == FP16; }

static enum status check(const struct optimizer *o, const struct optimizer_elements *e, int n) {
    for (int i = 0; i < n; i++)
        if (!is_floating(e[i].weight_dtype) || !is_floating(e[i].grad_dtype))
            return FAIL(E_CONFIG, "%s has no kernel for %s weights with %s gradients; use fp64, fp32, bf16 or fp16",
                        o->name, dtype_name(e[i].weight_dtype), dtype_name(e[i].grad_dtype));
    return OK;
}

/* On a GPU the launcher of each dtype updates the sets of that dtype. */
enum status optimizer_update(const struct optimizer *o, const struct device *device,
                             const struct optimizer_settings *a, const struct optimizer_elements *e, int n) {
    struct optimizer_factors f = o->factors(a);
    TRY(check(o, e, n));
    for (int d = 0; d < N_DTYPES && device->kind == DEVICE_CUDA; d++)
        if (o->cuda[d]) TRY(o->cuda[d](device->stream, &f, a->grad_multiplier, e, n));
    if (device->kind == DEVICE_CUDA || isnan(*a->grad_multiplier)) return OK;
    for (int i = 0; i < n; i++) o->cpu[e[i].weight_dtype](&f, *a->grad_multiplier, &e[i]);
    return OK;
}

/* ---- the decision ---- */

/* volatile rounds the product. Otherwise the compiler might fuse it with + 1e-6, and the factor would not be that of
 * *norm. */
static enum status decide_cpu(double *multiplier, double *norm, const double *sum_of_squares, const double *loss,
                              double clip, double unscale) {
    volatile double rounded = sqrt(*sum_of_squares) * fabs(unscale);
    double length = rounded, factor = clip / (length + 1e-6);
    bool usable = isfinite(length) && (!loss || isfinite(*loss));
    *norm = length;
    *multiplier = usable ? (clip > 0 && factor < 1 ? factor : 1) * unscale : (double)NAN;
    return OK;
}

enum status optimizer_decide(const struct device *device, double *multiplier, double *norm,
                             const double *sum_of_squares, const double *loss, double clip, double unscale) {
    WITH_CUDA(if (device->kind == DEVICE_CUDA)
                  return optimizer_decide_cuda(device->stream, multiplier, norm, sum_of_squares, loss, clip, unscale);)
    (void)device;
    return decide_cpu(multiplier, norm, sum_of_squares, loss, clip, unscale);
}
