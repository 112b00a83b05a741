#include "lib/ops/optimizer_kernels.h"

#include "lib/base/option.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the rows ---- */

#define OPTIMIZER_ROW(choice, row, word) &row,
static const struct optimizer *const ROWS[] = {EVERY_OPTIMIZER(OPTIMIZER_ROW)};

const struct optimizer optimizer_none = {.name = "none", .reads = {NULL}, .whole = true, .apart = true};

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
    if (n && !o->cpu[FP64])
        return FAIL(E_INTERNAL, "no technique of this program updates by %s", o->name);
    for (int i = 0; i < n; i++)
        if (!is_floating(e[i].weight_dtype) || !is_floating(e[i].grad_dtype))
            return FAIL(E_CONFIG, "%s has no kernel for %s weights with %s gradients; use fp64, fp32, bf16 or fp16",
                        o->name, dtype_name(e[i].weight_dtype), dtype_name(e[i].grad_dtype));
    return OK;
}

/* On a GPU the launcher of each dtype updates the sets of that dtype. */
static enum status update_by(const struct optimizer *o, const struct device *device,
                             const struct optimizer_settings *a, const struct optimizer_elements *e, int n) {
    TRY(check(o, e, n));
    if (n == 0) return OK;
    struct optimizer_factors f = o->factors(a);
    for (int d = 0; d < N_DTYPES && device->kind == DEVICE_CUDA; d++)
        if (o->cuda[d]) TRY(o->cuda[d](device->stream, &f, a->grad_multiplier, e, n));
    if (device->kind == DEVICE_CUDA || isnan(*a->grad_multiplier)) return OK;
    for (int i = 0; i < n; i++) o->cpu[e[i].weight_dtype](&f, *a->grad_multiplier, &e[i]);
    return OK;
}

static const struct optimizer *optimizer_for(const struct optimizer *o, const struct optimizer_elements *e) {
    return e->optimizer ? e->optimizer : o;
}

/* Move the sets of one optimizer from e[first] on to the front. @return their number */
static int gather(const struct optimizer *o, const struct optimizer *one, struct optimizer_elements *e, int first,
                  int n) {
    int found = first;
    for (int i = first; i < n; i++) {
        struct optimizer_elements x = e[i];
        if (optimizer_for(o, &x) != one) continue;
        e[i] = e[found], e[found++] = x;
    }
    return found - first;
}

enum status optimizer_update(const struct optimizer *o, const struct device *device,
                             const struct optimizer_settings *a, const struct optimizer_elements *e, int n) {
    bool mixed = false;
    for (int i = 0; i < n; i++) mixed |= optimizer_for(o, &e[i]) != o;
    if (!mixed) return update_by(o, device, a, e, n);
    struct optimizer_elements *sets = malloc((size_t)n * sizeof *sets);
    if (!sets) return FAIL(E_MEMORY, "no memory for a table of %d params", n);
    memcpy(sets, e, (size_t)n * sizeof *sets);
    enum status status = OK;
    for (int first = 0, few; first < n && status == OK; first += few) {
        const struct optimizer *one = optimizer_for(o, &sets[first]);
        few = gather(o, one, sets, first, n);
        if (!one->whole) status = update_by(one, device, a, &sets[first], few);
    }
    free(sets);
    return status;
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

enum status optimizer_inverse_norm(const struct device *device, double *inverse, const double *sum_of_squares,
                                   double least) {
    WITH_CUDA(if (device->kind == DEVICE_CUDA)
                  return optimizer_inverse_norm_cuda(device->stream, inverse, sum_of_squares, least);)
    (void)device;
    *inverse = 1 / fmax(sqrt(*sum_of_squares), least);
    return OK;
}
