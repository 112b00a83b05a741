/* Parameters, flops and bytes of a GPT, counted by hand: the contract of lesson 01's third exercise. The tests compare
 * your numbers with those of `show memory`.
 *
 * The model is GPT-2's: embeddings of tokens and positions; L layers; a last layernorm; a head. A layer has a
 * layernorm, attention (one matrix for q, k and v, one for the output), a layernorm, and two matrices with a GELU
 * between. The head is the token embedding again. Every linear and layernorm has a bias, except the head. */
#pragma once

#include "lib/base/status.h"

#include <stdint.h>

struct gpt_shape { int64_t layers, hidden, heads, seq, vocab; };

/** Parameters; the tied head counts once. */
enum status count_parameters(const struct gpt_shape *, int64_t *out);

/** Flops per token, forward and backward together: 6 for each parameter of a matrix product, and those of attention's
 *  two products of activations, in which every query reads every key. The token embedding counts, because it is the
 *  head's matrix; positions, biases and layernorms do not count. */
enum status count_flops_per_token(const struct gpt_shape *, double *out);

/** Bytes of parameters, gradients and AdamW's states, all in fp32. mixed: parameters and gradients have 2 bytes, and
 *  the states are two moments and a master copy of the parameters, in fp32. */
struct static_bytes { int64_t param, grad, optim; };
enum status count_static_bytes(const struct gpt_shape *, bool mixed, struct static_bytes *out);

/** Bytes that one layer saves from forward to backward for a microbatch of micro_batch sequences, without the
 *  statistics of layernorm and attention. An element has element_bytes; an element of a dropout mask has one byte.
 *  stored: attention keeps its probabilities, its dropout mask and the probabilities after dropout, and both residuals
 *  keep a mask. Otherwise the layer keeps no mask, and no tensor of size seq x seq. */
enum status count_layer_activations(const struct gpt_shape *, int64_t micro_batch, int64_t element_bytes, bool stored,
                                    int64_t *out);
