/* Bytes that a rank keeps and sends under ZeRO: the contract of this exercise. The theory is in lesson 04, "Who keeps
 * what" and "What is on the wire".
 *
 * n ranks are replicas of each other (data parallelism). stage 0 is plain data parallelism, 1 to 3 are ZeRO's. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* Bytes of one parameter's weight, gradient and optimizer states. fp32: 4, 4, 8. bf16 with fp32 master weights: 2, 2,
 * 12. */
struct states { double weight, grad, optim; };

/** *bytes = the bytes that a rank keeps per parameter of the model, on average. n >= 1.  @collective{none} */
enum status states_per_param(int stage, int n, struct states x, double *bytes);

/** *params = the largest model, in parameters, whose states fit into `room` bytes per rank.  @collective{none} */
enum status states_largest_model(int stage, int n, struct states x, double room, double *params);

/** *n = the fewest ranks on which a model of `params` parameters fits into `room` bytes per rank; 0 if it fits on no
 *  number of ranks.
 *  @collective{none} */
enum status states_fewest_ranks(int stage, double params, struct states x, double room, int *n);

/** *bytes = the bytes that a rank sends in a step of m microbatches. weight_bytes: bytes of all weights, and of all
 *  gradients. Sums and gathers are rings (lesson 02). At stages 2 and 3 gradients are reduce-scattered in every
 *  microbatch. At stage 3 weights are gathered in forward and again in backward, and not after the update. Count every
 *  gather, also of weights that backward does not read.  @collective{none} */
enum status states_sent(int stage, int n, int m, double weight_bytes, double *bytes);

/** *bytes = the exact bytes that a rank keeps of n_tensors tensors of size[i] elements. Each tensor is cut by itself
 *  into n equal shards, rounded up. A rank that keeps a whole tensor keeps all n shards, with the padding of the last
 *  ones. x has whole numbers.  @collective{none} */
enum status states_of_rank(int stage, int n, struct states x, const int64_t *size, int n_tensors, int64_t *bytes);
