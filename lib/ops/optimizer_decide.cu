/* The factor of one step's gradients, computed on the device; see optimizer_decide in optimizer.h. One thread is enough
 * for two numbers. */
#include "lib/ops/optimizer_kernels.h"

#include "lib/device/gpu.h"

/* volatile rounds the product. Otherwise the compiler might fuse it with + 1e-6, and the factor would not be that of
 * *norm. */
__global__ static void optimizer_decide_one_thread(double *multiplier, double *norm, const double *sum_of_squares,
                                                   const double *loss, double clip, double unscale) {
    volatile double rounded = sqrt(*sum_of_squares) * fabs(unscale);
    double length = rounded, factor = clip / (length + 1e-6);
    bool usable = length - length == 0 && (!loss || *loss - *loss == 0);        /* x - x is 0 for a finite x only */
    *norm = length;
    *multiplier = usable ? (clip > 0 && factor < 1 ? factor : 1) * unscale : (double)NAN;
}

enum status optimizer_decide_cuda(void *stream, double *multiplier, double *norm, const double *sum_of_squares,
                                  const double *loss, double clip, double unscale) {
    return LAUNCHED(optimizer_decide_one_thread, 1, 1, 0, stream, multiplier, norm, sum_of_squares, loss, clip,
                    unscale);
}

__global__ static void optimizer_inverse_norm_one_thread(double *inverse, const double *sum_of_squares, double least) {
    *inverse = 1 / fmax(sqrt(*sum_of_squares), least);
}

enum status optimizer_inverse_norm_cuda(void *stream, double *inverse, const double *sum_of_squares, double least) {
    return LAUNCHED(optimizer_inverse_norm_one_thread, 1, 1, 0, stream, inverse, sum_of_squares, least);
}
