/* AdamW over a rank's own elements; not an op of the program. For each element, at step t = 1, 2, ...:
 *
 *   g = grad_multiplier grad                       (clipping and unscaling in one factor)
 *   w = w - lr weight_decay w                      (decoupled decay)
 *   m = beta1 m + (1 - beta1) g                    v = beta2 v + (1 - beta2) g^2
 *   w = w - lr / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
 *
 * With a master copy, w is the master's, and the weight is the master rounded.
 *
 * An element's result depends on that element alone, bit for bit: not on the number of threads, nor on how a tensor is
 * cut into shards, nor on where an element falls in a vector loop, nor on the device. The kernels say which products
 * are fused and leave the compiler none to choose. Source: Loshchilov and Hutter 2019; order of operations as
 * torch.optim.AdamW. */
#ifndef TRIVIUM_OPS_ADAMW_H
#define TRIVIUM_OPS_ADAMW_H

#include "lib/device/device.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct adamw {
    double lr, beta1, beta2, eps, weight_decay;
    const double *grad_multiplier;   /* one double in the device's memory; NaN: change nothing */
    int64_t step;                    /* t, from 1 */
};

/** The n elements of one update, in the device's memory, aligned to an element at least. Moments are in the
 *  accumulator's dtype of the weight: fp64 for fp64, else fp32. */
struct adamw_elements {
    int64_t n;
    void *weight;
    enum dtype weight_dtype;
    const void *grad;
    enum dtype grad_dtype;           /* any floating type */
    void *m, *v;
    void *master;                    /* fp32, for a bf16 or fp16 weight; NULL: none */
    bool decay;                      /* weight_decay applies; else it is 0 here */
};

/** What one step's gradients are multiplied by, decided where the norm is, so that the host need not wait for it:
 *
 *    *norm       = sqrt(*sum_of_squares) |unscale|
 *    *multiplier = min(1, clip / (*norm + 1e-6)) unscale; with clip 0: unscale
 *
 *  and NaN if the norm or *loss is not finite: then adamw_update changes nothing, and the host, which learns of it
 *  later, refuses or skips the step. unscale: what undoes the loss scale. All pointers point to the device's memory;
 *  loss may be NULL; norm may be sum_of_squares. In order on the compute stream. @errors E_DEVICE  @collective{none} */
enum status adamw_decide(const struct device *, double *multiplier, double *norm, const double *sum_of_squares,
                         const double *loss, double clip, double unscale);

/** Update the weights, moments and masters of n sets of elements in place, in order on the compute stream.
 *  @errors E_CONFIG for a dtype that has no kernel, before anything is changed; E_DEVICE  @collective{none} */
enum status adamw_update(const struct device *, const struct adamw *, const struct adamw_elements *, int n);

#ifdef __cplusplus
}
#endif
#endif
