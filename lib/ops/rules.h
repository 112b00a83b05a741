/* What an op is told beyond its operands. Each kind of op has a rule of its own; op->rule says which, and the step
 * carries it. */
#ifndef TRIVIUM_OPS_RULES_H
#define TRIVIUM_OPS_RULES_H

#include <stdint.h>

enum op_rule { RULE_NONE, RULE_DROPOUT, RULE_ATTENTION, RULE_HEAD };

/* add_position, bias_dropout_residual (dropout.h). */
struct dropout_rule {
    uint64_t stream;                     /* the site's random stream: rng_stream of its name */
    double p;                            /* probability of dropping; 0: none */
};

/* Whose kernels run blocked attention on CUDA. AUTO: cuDNN's where it can (attention_cudnn.h). CUDNN: what it cannot do
 * is refused, E_CONFIG: a shape when the program is inferred, an element type or a GPU when the first row runs. */
enum attention_core { ATTENTION_CORE_AUTO, ATTENTION_CORE_OWN, ATTENTION_CORE_CUDNN };
struct attention_rule {
    struct dropout_rule dropout;         /* of the probabilities */
    enum attention_core core;
};

/* linear_cross_entropy. */
struct head_rule { int64_t rows; };      /* tokens whose logits exist at a time; 0: all */

#endif
