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
 * cut into shards, nor on where an element falls in a vector loop. The kernel says which products are fused and leaves
 * the compiler none to choose. Source: Loshchilov and Hutter 2019; order of operations as torch.optim.AdamW. */
#ifndef TRIVIUM_OPS_ADAMW_H
#define TRIVIUM_OPS_ADAMW_H

#include "lib/base/status.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct adamw {
    double lr, beta1, beta2, eps, weight_decay;
    double grad_multiplier;
    int64_t step;                /* t, from 1 */
};

/** The n elements of one update. Moments are in the accumulator's dtype of the weight: fp64 for fp64, else fp32. */
struct adamw_elements {
    int64_t n;
    void *weight;
    enum dtype weight_dtype;
    const void *grad;
    enum dtype grad_dtype;       /* any floating type */
    void *m, *v;
    void *master;                /* fp32, beside a bf16 or fp16 weight; NULL: none */
};

/** Update weights, moments and master in place. @errors E_CONFIG for a dtype that has no kernel  @collective{none} */
enum status adamw_update(const struct adamw *, const struct adamw_elements *);

#ifdef __cplusplus
}
#endif
#endif
