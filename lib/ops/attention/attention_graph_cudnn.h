/* Attention as a graph of cuDNN operations, and the plan that cuDNN makes of it. Only attention*_cudnn.c and their test
 * include this, and only where there is a cuDNN. */
#pragma once

#include "lib/ops/attention/attention_pair.h"
#include <cudnn.h>

/* The tensors that have an address when the plan runs. Forward uses the first seven. */
enum attention_operand {
    OPERAND_Q = 1, OPERAND_K, OPERAND_V, OPERAND_Y, OPERAND_LSE,
    OPERAND_SCALE, OPERAND_MASKED,                       /* numbers: 1 / sqrt(D); the score of a key that is not seen */
    OPERAND_DY, OPERAND_DQ, OPERAND_DK, OPERAND_DV,
    OPERAND_ONE, OPERAND_DQ_SUM,                         /* the number 1; dq summed in fp32: scratch, zero at first */
    N_OPERANDS = OPERAND_DQ_SUM
};

/* A graph's shape: sizes of a pair, and the places of each operand's vectors, in elements. The struct has no padding,
 * so that two can be compared as bytes. */
struct attention_graph_shape {
    int64_t B, H, shared_by, D, Tq, Tk, causal, lse_row;
    int64_t sample[N_OPERANDS + 1], row[N_OPERANDS + 1];
};
struct attention_graph_shape attention_graph_shape(const struct attention_pair *);

enum { ATTENTION_GRAPH_MADE = 256, ATTENTION_GRAPH_OPS = 24 };

struct attention_graph {
    cudnnBackendDescriptor_t made[ATTENTION_GRAPH_MADE];    /* all descriptors; destroyed together, after the plan */
    cudnnBackendDescriptor_t ops[ATTENTION_GRAPH_OPS];
    int n_made, n_ops;
    int64_t next_virtual;                                   /* name of the next tensor that has no address */
    struct attention_graph_shape s;
    cudnnDataType_t elem;
    cudnnStatus_t failed;                                   /* the first failure, and the failing call; later calls are
                                                             * skipped */
    const char *at;
    cudnnBackendDescriptor_t graph;
};

/** The graph of a row, finalised. handle: the device's; NULL: none yet, to ask the heuristics only. @errors E_DEVICE */
enum status attention_graph_build(struct attention_graph *, const struct attention_graph_shape *, cudnnDataType_t elem,
                                  bool backward, cudnnHandle_t handle);
void attention_graph_destroy(struct attention_graph *);

/* The outcome of trying the heuristics' configurations in their order. */
struct attention_choice {
    cudnnBackendDescriptor_t plan;   /* the first plan that fits the workspace; NULL: none. The graph owns it */
    int64_t engine;                  /* the plan's engine: cuDNN's global index */
    int64_t passed_over;             /* engine of the first configuration, if that made no plan */
    cudnnStatus_t why;               /* why not; CUDNN_STATUS_SUCCESS: it made one, or needs more workspace */
    int64_t wanted;                  /* bytes of workspace that the first configuration asks for */
    int n_configs;                   /* how many were tried */
};

/** Ask the heuristics, and try the configurations that they name. Either handle or device (a finalised device-property
 *  descriptor) is NULL. With a device, only the first is tried: it is compiled, but cannot be loaded. A configuration
 *  that needs more than most_bytes of workspace is not compiled. @errors E_DEVICE: cuDNN could not be asked */
enum status attention_graph_plan(struct attention_graph *, cudnnHandle_t handle, cudnnBackendDescriptor_t device,
                                 int64_t most_bytes, struct attention_choice *out);

/** A device made from its description, for asking the heuristics without a GPU. */
cudnnBackendDescriptor_t attention_graph_device(struct attention_graph *, const char *json);
