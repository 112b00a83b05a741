/* Data parallelism: each replica has the whole model and a share of the batch; gradients are all-reduced. See dp.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_dp, technique_dp_coded;   /* dp_coded.c: gradients as codes of fewer bytes */
extern const struct technique technique_dp_noise;                 /* dp_noise.c: and the gradient noise scale */

/** The noise and the square of the true gradient, without bias: trace of the covariance of one sample's gradient, and
 *  |G|^2. n: replicas; squares: of all replicas' terms g_r, summed; norm: of sum_r g_r. Pure. */
void dp_noise(double n, double batch, double squares, double norm, double *trace, double *squared);

/** Zero the alignment gaps between the gradients of the grad arena, because buckets send them, too.
 *  @errors E_DEVICE  @collective{none} */
enum status dp_clear_gaps(struct run *);
