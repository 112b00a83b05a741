/* Activations of an MLP, by the words of --activation.
 *
 *   relu, gelu, gelu-tanh   y = act(x)                          gelu.h
 *   geglu, swiglu           y = act(a) u, a, u = halves of x    swiglu.h; the act of geglu is gelu-tanh */
#pragma once

#include "lib/ops/op.h"

/* AUTO: the model's usual one. */
enum activation {
    ACTIVATION_AUTO, ACTIVATION_RELU, ACTIVATION_GELU, ACTIVATION_GELU_TANH, ACTIVATION_GEGLU, ACTIVATION_SWIGLU,
    N_ACTIVATIONS
};
enum {                                   /* sets: 1 << a of each activation a */
    ACTIVATIONS_PLAIN = 1 << ACTIVATION_RELU | 1 << ACTIVATION_GELU | 1 << ACTIVATION_GELU_TANH,
    ACTIVATIONS_GATED = 1 << ACTIVATION_GEGLU | 1 << ACTIVATION_SWIGLU,
    ACTIVATIONS_ALL = ACTIVATIONS_PLAIN | ACTIVATIONS_GATED
};

/** The op of an activation that is not AUTO. Pure. */
const struct op *activation_op(enum activation);
/** Is the op's input twice as wide as its output? Pure. */
bool activation_is_gated(enum activation);
/** Write to *out the activation that a model computes: `said`, or of AUTO `usual`. takes: the set of those that it has.
 *  arch: its name. @errors E_CONFIG: it has no such activation  @collective{none} */
enum status activation_choose(enum activation said, enum activation usual, unsigned takes, const char *arch,
                              enum activation *out);

/* ReLU:  y = max(x, 0)      dx = dy where x > 0, else 0
 *
 * in[0] x   out[0] y, the same type. Elementwise, so any shard of any axis will do. NaN stays NaN. */
extern const struct op op_relu;
