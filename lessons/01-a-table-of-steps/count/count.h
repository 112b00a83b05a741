/* What a GPT costs, counted by hand: the contract of lesson 01's third exercise. The tests hold your numbers against
 * what `show memory` plans.
 *
 * The model is GPT-2's: embeddings of tokens and positions; L layers of layernorm, attention (one matrix for q, k and
 * v, one for the way out), layernorm, two matrices with GELU between; a last layernorm; the head is the token embedding
 * again. Every linear and layernorm has a bias, but for the head. */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>

struct gpt_shape { int64_t layers, hidden, heads, seq, vocab; };

/** Parameters; the tied head counts once. */
enum status count_parameters(const struct gpt_shape *, int64_t *out);

/** Flops a token, forward and backward together: 6 for each parameter of a matrix product (the token embedding is one,
 *  as the head; positions, biases and layernorms are not), and what attention's two products of activations cost with
 *  every query looking at every key. */
enum status count_flops_per_token(const struct gpt_shape *, double *out);

/** Bytes of parameters, gradients and what AdamW keeps: all in fp32; or mixed: parameters and gradients of 2 bytes, and
 *  in addition to the two moments a master copy of the parameters, in fp32. */
struct static_bytes { int64_t param, grad, optim; };
enum status count_static_bytes(const struct gpt_shape *, bool mixed, struct static_bytes *out);

/** Bytes that one layer saves from forward to backward for a microbatch of micro_batch sequences, without the
 *  statistics of layernorm and attention. An element has element_bytes; a mask of dropout one byte. stored: attention
 *  keeps its probabilities, the mask of its dropout and the dropped probabilities, and both residuals keep a mask.
 *  Otherwise nothing of size seq x seq is kept, and no mask. */
enum status count_layer_activations(const struct gpt_shape *, int64_t micro_batch, int64_t element_bytes, bool stored,
                                    int64_t *out);
