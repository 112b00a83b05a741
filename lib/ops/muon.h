/* Muon's arithmetic: rows of optimizers for its momentum and its step, and the Newton-Schulz iteration between them.
 * See muon.c. muon/ distributes the matrices. */
#pragma once

#include "lib/ops/op.h"
#include "lib/ops/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The factors of all three rows: m = KEPT m + NEW g, and the weight becomes OF_MOMENTUM m + OF_GRAD g + decay w. */
enum { MUON_KEPT, MUON_NEW, MUON_OF_MOMENTUM, MUON_OF_GRAD };

/** A matrix that Muon updates. It has one state, the momentum; the technique calls the rows below. */
extern const struct optimizer optimizer_muon_matrix;

/** With m = momentum m + (1 - momentum) g, the "weight" becomes beta1 m + (1 - beta1) g. Nesterov: beta1 = momentum;
 *  else beta1 = 1. Its dtype is the state's; it was finite before. */
extern const struct optimizer optimizer_muon_momentum;
/** The "weight" becomes the gradient times the multiplier; both may be one array. */
extern const struct optimizer optimizer_muon_scale;
/** w = (1 - lr weight_decay) w - lr g. The gradient is the orthogonalized matrix. */
extern const struct optimizer optimizer_muon_step;

/* A matrix as PyTorch stores it: rows are the outputs of its linear layer, columns the inputs. */
struct muon_shape { int64_t rows, columns; enum dtype dtype; };   /* fp32 or fp64 */

/* Memory of newton_schulz on the device. */
struct newton_schulz {
    int n_threads;         /* as of gemm_work */
    bool plain;            /* as of struct gemm */
    void *spare;           /* rows x columns elements */
    void *gram;            /* 2 square matrices of the smaller side */
    void *gemm_work;       /* newton_schulz_work bytes */
    double *numbers;       /* 2 */
    void *reduce_work;     /* reduce_work bytes (reduce.h) */
};

/** Bytes of gram, and of gemm_work for the largest of the products. Pure. */
int64_t newton_schulz_gram(const struct muon_shape *);
int64_t newton_schulz_work(const struct muon_shape *, enum device_kind, int n_threads, bool plain);
/** Floating-point operations of `steps` iterations. Pure. */
double newton_schulz_flops(const struct muon_shape *, int steps);
/** The cost of one iteration, from the products that it runs. Pure. */
struct cost newton_schulz_cost(const struct muon_shape *);
/** Replace x (rows, columns), in device memory, by the result of `steps` iterations, in order on the compute stream.
 *  @errors E_DEVICE  @collective{none} */
enum status newton_schulz(const struct device *, const struct muon_shape *, int steps, void *x,
                          const struct newton_schulz *);

#ifdef __cplusplus
}
#endif
