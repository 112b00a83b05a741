/* Attention as a graph of cuDNN operations, and the plan that cuDNN makes of it. Only attention*_cudnn.c and their test
 * include this, and only where there is a cuDNN. */
#pragma once

#include "lib/ops/attention/attention_pair.h"
#include <cudnn.h>

/* Names of the tensors that have an address when the plan runs. Forward has the first seven. */
enum attention_operand {
    OPERAND_Q = 1, OPERAND_K, OPERAND_V, OPERAND_Y, OPERAND_LSE,
    OPERAND_SCALE, OPERAND_MASKED,                       /* numbers: 1 / sqrt(D); the score of a key that is not seen */
    OPERAND_DY, OPERAND_DQ, OPERAND_DK, OPERAND_DV,
    OPERAND_ONE, OPERAND_DQ_SUM,                         /* the number 1; dq summed in fp32: scratch, zero at first */
    N_OPERANDS = OPERAND_DQ_SUM
};

/* What a graph is of: sizes of a pair, and where the vectors of each operand lie, in elements. Without padding, so that
 * two can be compared as bytes. */
struct attention_graph_shape {
    int64_t B, H, shared_by, D, Tq, Tk, causal, lse_row;
    int64_t sample[N_OPERANDS + 1], row[N_OPERANDS + 1];
};
struct attention_graph_shape attention_graph_shape(const struct attention_pair *);

enum { ATTENTION_GRAPH_MADE = 256, ATTENTION_GRAPH_OPS = 24 };

struct attention_graph {
    cudnnBackendDescriptor_t made[ATTENTION_GRAPH_MADE];    /* everything, to be destroyed together, after the plan */
    cudnnBackendDescriptor_t ops[ATTENTION_GRAPH_OPS];
    int n_made, n_ops;
    int64_t next_virtual;                                   /* name of the next tensor that has no address */
    struct attention_graph_shape s;
    cudnnDataType_t elem;
    cudnnStatus_t failed;                                   /* the first failure, and at what; what follows is
                                                             * skipped */
    const char *at;
    cudnnBackendDescriptor_t graph;
};

/** The graph of a row, finalised. handle: the device's; NULL: none yet, to ask the heuristics only. @errors E_DEVICE */
enum status attention_graph_build(struct attention_graph *, const struct attention_graph_shape *, cudnnDataType_t elem,
                                  bool backward, cudnnHandle_t handle);
void attention_graph_destroy(struct attention_graph *);

/* What became of the heuristics' configurations, in their order. */
struct attention_choice {
    cudnnBackendDescriptor_t plan;   /* of the first that makes one within the workspace; NULL: none. The graph's */
    int64_t engine;                  /* whose it is: cuDNN's global index */
    int64_t passed_over;             /* engine of the first configuration, where that made no plan, and why not */
    cudnnStatus_t why;               /* CUDNN_STATUS_SUCCESS: it did, or its plan needs more workspace */
    int64_t wanted;                  /* bytes of workspace that the first configuration asks for */
    int n_configs;                   /* how many were tried */
};

/** Ask the heuristics, and try what they name. One of handle and device (a finalised device-property descriptor) is
 *  NULL; with a device, only the first is tried: it is compiled, and nothing can be loaded. A configuration that needs
 *  more than most_bytes of workspace is not compiled.
 *  @errors E_DEVICE: cuDNN could not be asked */
enum status attention_graph_plan(struct attention_graph *, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                                 int64_t most_bytes, struct attention_choice *out);

/** A device by its description, for asking without one. */
cudnnBackendDescriptor_t attention_graph_device(struct attention_graph *, const char *json);
