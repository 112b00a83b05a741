/* An optimizer is a row of a table: the states that it keeps for each element, and its kernels. It updates the rank's
 * own elements. It is not an op of the program. Muon, whose update needs whole matrices, is a row without kernels: a
 * technique updates its matrices (muon/).
 *
 *   g = grad_multiplier grad                                   (clipping and unscaling in one factor)
 *   w, states = f(w, g, states)                                (f: the row's formula; adamw.c, sgd.c)
 *
 * With a master copy, w is the master, and the weight is the master rounded. States start as zeros.
 *
 * An element's result depends on that element alone, bit for bit. The number of threads, the cut into shards, the place
 * in a vector loop and the device do not change it. The kernels state each fused multiply-add, so that the compiler has
 * nothing left to fuse. */
#pragma once

#include "lib/device/device.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct options;
enum { OPTIMIZER_STATES = 2, OPTIMIZER_FACTORS = 7 };   /* the most that any optimizer has */

/* The numbers of one update. Each optimizer reads only some of them. */
struct optimizer_settings {
    double lr, weight_decay, beta1, beta2, eps, momentum;
    const double *grad_multiplier;   /* one double in the device's memory; NaN: change nothing */
    int64_t step;                    /* t, from 1 */
};

/** One set of n elements, in the device's memory, at any element of a tensor. States are fp64 for an fp64 weight, else
 *  fp32. */
struct optimizer_elements {
    int64_t n;
    void *weight;
    enum dtype weight_dtype;
    const void *grad;
    enum dtype grad_dtype;           /* any floating type */
    void *state[OPTIMIZER_STATES];   /* in the order of optimizer.state */
    void *master;                    /* fp32, for a bf16 or fp16 weight; NULL: none */
    bool decay;                      /* weight_decay applies to these elements */
    const struct optimizer *optimizer;   /* of these elements; NULL: that of the call */
};

/* The numbers that are the same for all elements. The host computes them once, in double, because another compiler
 * might fuse other products. Every kernel rounds them to its own type. */
struct optimizer_factors {
    double decay[2];                 /* the factor of w: [0] without weight decay, [1] with it */
    double x[OPTIMIZER_FACTORS];     /* in the order in which the optimizer's kernels name them */
};

/* Update one set of elements on the CPU. */
typedef void optimizer_cpu_kernel(const struct optimizer_factors *, double grad_multiplier,
                                  const struct optimizer_elements *);
/* Update those of the n sets whose weights have the kernel's dtype, on a CUDA device's stream. */
typedef enum status optimizer_cuda_launcher(void *stream, const struct optimizer_factors *,
                                            const double *grad_multiplier, const struct optimizer_elements *, int n);

struct optimizer {
    const char *name;
    const char *reads[4];            /* the options that this optimizer reads, ended by NULL */
    const struct optimizer *plain;   /* the row that replaces this one if momentum is 0; NULL: it has no momentum */
    int n_states;
    /* A state's name, "moment1", and the suffix of its name in a checkpoint, ".exp_avg" */
    struct { const char *name, *saved_as; } state[OPTIMIZER_STATES];
    bool whole;                      /* a technique updates whole matrices; optimizer_update passes over them */
    bool apart;                      /* the gradient is not one of the loss, and is no part of the norm */
    struct optimizer_factors (*factors)(const struct optimizer_settings *);
    optimizer_cpu_kernel *cpu[N_DTYPES];
    optimizer_cuda_launcher *cuda[N_DTYPES];
};

/* X(choice, row, word): all optimizers, in the order of --optimizer's words. */
#define EVERY_OPTIMIZER(X) \
    X(OPTIMIZER_ADAMW, optimizer_adamw, "adamw") \
    X(OPTIMIZER_SGD, optimizer_sgd, "sgd") \
    X(OPTIMIZER_MUON, optimizer_muon, "muon")
#define OPTIMIZER_CHOICE(choice, row, word) choice,
#define OPTIMIZER_TEXT(choice, row, word) word,
#define OPTIMIZER_WORD(choice, row, word) "|" word
#define OPTIMIZER_WORDS (&(EVERY_OPTIMIZER(OPTIMIZER_WORD))[1])   /* "adamw|sgd", as typed */
/** The value of --optimizer: the index of the word. */
enum optimizer_choice { EVERY_OPTIMIZER(OPTIMIZER_CHOICE) N_OPTIMIZERS };
#define OPTIMIZER_EXTERN(choice, row, word) extern const struct optimizer row;
/** The rows: of the list, and of SGD without momentum. */
EVERY_OPTIMIZER(OPTIMIZER_EXTERN)
extern const struct optimizer optimizer_sgd_plain;
/** The row of a param that no optimizer changes. */
extern const struct optimizer optimizer_none;
/** w = w - lr sign(g). The gradient is not one of the loss; a technique calls the row (lib/experts/router_bias.c). */
extern const struct optimizer optimizer_sign;

/** The optimizer of a choice. Pure. */
const struct optimizer *optimizer_of(enum optimizer_choice, double momentum);
/** The optimizer of this name; NULL: there is none. Pure. */
const struct optimizer *optimizer_named(const char *name);
/** Refuse an option that the user set, if another optimizer reads it and this one does not. @errors E_CONFIG */
enum status optimizer_check_options(const struct optimizer *, const struct options *);

/** Compute the factor of one step's gradients on the device, where the norm is, so that the host does not wait for it:
 *
 *    *norm       = sqrt(*sum_of_squares) |unscale|
 *    *multiplier = min(1, clip / (*norm + 1e-6)) unscale; with clip 0: unscale
 *
 *  If the norm or *loss is not finite, *multiplier is NaN: optimizer_update then changes nothing, and the host, which
 *  reads the norm later, refuses or skips the step. unscale: 1 / loss scale. All pointers point to device memory;
 *  loss may be NULL; norm may be sum_of_squares. In order on the compute stream. @errors E_DEVICE  @collective{none} */
enum status optimizer_decide(const struct device *, double *multiplier, double *norm, const double *sum_of_squares,
                             const double *loss, double clip, double unscale);

/** *inverse = 1 / max(sqrt(*sum_of_squares), least), one double each in device memory, in order on the compute stream.
 *  @errors E_DEVICE  @collective{none} */
enum status optimizer_inverse_norm(const struct device *, double *inverse, const double *sum_of_squares, double least);

/** Update the weights, states and masters of n sets of elements in place, in order on the compute stream. A set whose
 *  optimizer is another one is updated by that one, with the same settings.
 *  @errors E_CONFIG for a dtype that has no kernel, before anything is changed; E_DEVICE, E_MEMORY
 *  @collective{none} */
enum status optimizer_update(const struct optimizer *, const struct device *, const struct optimizer_settings *,
                             const struct optimizer_elements *, int n);

#ifdef __cplusplus
}
#endif
