/* A step of AdamW, the noise of a gradient, and the sizes of a run: the contract of this exercise. The theory is in
 * lesson 24. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stdint.h>

struct adamw { double lr, weight_decay, beta1, beta2, eps; };

/** Update n weights w and their moments m and v in place; g: their gradients; t: this step's number, from 1. decay:
 *  weight decay applies to them. Lesson 24, "AdamW", has the formula.
 *
 *  The library's bits need its roundings. Numbers that are the same for all elements are computed in double, each
 *  rounded once to float: the factor of w by the decay, beta1, 1 - beta1, beta2, 1 - beta2, lr / (1 - beta1^t),
 *  1 / sqrt(1 - beta2^t), eps. For an element all is float. Each sum of two products is fmaf(x, y, z): x, y is the
 *  moment's old value with its beta; the root of v with its correction; and last, minus the rate, and m divided by the
 *  denominator. The gradient's square is ((1 - beta2) g) g.  @collective{none} */
enum status batch_adamw(const struct adamw *, int64_t t, bool decay, int64_t n, float *w, float *m, float *v,
                        const float *g);

/* The mean of the squared norm of a gradient, over many batches of this size, with the same weights. */
struct measured { double batch, square; };

/** From two batch sizes: *gradient = the squared norm of the gradient without noise; *noise = the sum of the
 *  variances of all elements of one sample's gradient; *scale = the noise scale, in samples.
 *  @errors E_DATA: the batches are equal, or *gradient would not be above 0  @collective{none} */
enum status batch_noise(struct measured few, struct measured many, double *gradient, double *noise, double *scale);

/* Steps that a run of this batch size takes to a certain loss. */
struct taken { double batch, steps; };

/** From two runs to the same loss: *least = the steps that no batch size goes below; *critical = the batch size that
 *  takes twice as many. @errors E_DATA: batches are equal, or one of both would not be above 0  @collective{none} */
enum status batch_critical(struct taken small, struct taken large, double *least, double *critical);

/* The loss of N parameters after D tokens: floor + a / N^alpha + b / D^beta. */
struct law { double floor, a, alpha, b, beta; };

/** *flops = the operations of this number of days and ranks. peak: operations per second of a rank; mfu: 0 to 1.
 *  @collective{none} */
enum status batch_flops(double days, double ranks, double peak, double mfu, double *flops);

/** *params and *tokens have the least loss of all with 6 params tokens = flops. Neither need be whole.
 *  @collective{none} */
enum status batch_sizes(const struct law *, double flops, double *params, double *tokens);
