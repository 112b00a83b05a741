/* An optimizer is a row: the states that it keeps of each element, and its kernels. It updates a rank's own elements,
 * and is not an op of the program.
 *
 *   g = grad_multiplier grad                                   (clipping and unscaling in one factor)
 *   w, states = what the row makes of w, g and states          (its file has the formula: adamw.c)
 *
 * With a master copy, w is the master's, and the weight is the master rounded. States begin with zeros.
 *
 * An element's result depends on that element alone, bit for bit: not on the number of threads, nor on how a tensor is
 * cut into shards, nor on where an element falls in a vector loop, nor on the device. The kernels say which products
 * are fused and leave the compiler none to choose. */
#pragma once

#include "lib/device/device.h"
#include "lib/device/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

struct options;
enum { OPTIMIZER_STATES = 2, OPTIMIZER_FACTORS = 7 };   /* the most that one optimizer has */

/* The numbers of one update. An optimizer reads some of them. */
struct optimizer_settings {
    double lr, weight_decay, beta1, beta2, eps, momentum;
    const double *grad_multiplier;   /* one double in the device's memory; NaN: change nothing */
    int64_t step;                    /* t, from 1 */
};

/** The n elements of one update, in the device's memory, aligned to an element at least. States are in the
 *  accumulator's dtype of the weight: fp64 for fp64, else fp32. */
struct optimizer_elements {
    int64_t n;
    void *weight;
    enum dtype weight_dtype;
    const void *grad;
    enum dtype grad_dtype;           /* any floating type */
    void *state[OPTIMIZER_STATES];   /* the row's, in its order */
    void *master;                    /* fp32, for a bf16 or fp16 weight; NULL: none */
    bool decay;                      /* weight_decay applies; else it is 0 here */
};

/* The numbers that are the same for all elements. Worked out once, in double, in one place (another compiler might fuse
 * a product with a sum, or not); every kernel rounds them to its own type. */
struct optimizer_factors {
    double decay[2];                 /* by elements->decay: the factor of w without weight decay, and with it */
    double x[OPTIMIZER_FACTORS];     /* in the order in which the optimizer's kernels name them */
};

/* One set of elements on the CPU. */
typedef void optimizer_cpu_kernel(const struct optimizer_factors *, double grad_multiplier,
                                  const struct optimizer_elements *);
/* Those of the n sets whose weights are of the kernel's dtype, on a CUDA device's stream. */
typedef enum status optimizer_cuda_launcher(void *stream, const struct optimizer_factors *,
                                            const double *grad_multiplier, const struct optimizer_elements *, int n);

struct optimizer {
    const char *name;
    const char *reads[4];            /* the options that are its own; NULL behind them */
    const struct optimizer *plain;   /* the row in its place where momentum is 0; NULL: it has no momentum */
    int n_states;
    /* "moment1"; and what follows the param's name in a checkpoint: ".exp_avg" */
    struct { const char *name, *saved_as; } state[OPTIMIZER_STATES];
    struct optimizer_factors (*factors)(const struct optimizer_settings *);
    optimizer_cpu_kernel *cpu[N_DTYPES];
    optimizer_cuda_launcher *cuda[N_DTYPES];
};

/* In the order of --optimizer's words. */
#define EVERY_OPTIMIZER(X)                        \
    X(OPTIMIZER_ADAMW, optimizer_adamw, "adamw")  \
    X(OPTIMIZER_SGD, optimizer_sgd, "sgd")
#define OPTIMIZER_CHOICE(choice, row, word) choice,
#define OPTIMIZER_TEXT(choice, row, word) word,
#define OPTIMIZER_WORD(choice, row, word) "|" word
#define OPTIMIZER_WORDS (&(EVERY_OPTIMIZER(OPTIMIZER_WORD))[1])   /* "adamw|sgd", as typed */
/** Its values are the places of the words. */
enum optimizer_choice { EVERY_OPTIMIZER(OPTIMIZER_CHOICE) N_OPTIMIZERS };
extern const struct optimizer optimizer_adamw, optimizer_sgd, optimizer_sgd_plain;

/** The optimizer of a choice. Pure. */
const struct optimizer *optimizer_of(enum optimizer_choice, double momentum);
/** The optimizer of this name; NULL: there is none. Pure. */
const struct optimizer *optimizer_named(const char *name);
/** Refuse an option that was given, if another optimizer reads it and this one does not. @errors E_CONFIG */
enum status optimizer_check_options(const struct optimizer *, const struct options *);

/** What one step's gradients are multiplied by, decided where the norm is, so that the host need not wait for it:
 *
 *    *norm       = sqrt(*sum_of_squares) |unscale|
 *    *multiplier = min(1, clip / (*norm + 1e-6)) unscale; with clip 0: unscale
 *
 *  and NaN if the norm or *loss is not finite: then optimizer_update changes nothing, and the host, which learns of it
 *  later, refuses or skips the step. unscale: what undoes the loss scale. All pointers point to the device's memory;
 *  loss may be NULL; norm may be sum_of_squares. In order on the compute stream. @errors E_DEVICE  @collective{none} */
enum status optimizer_decide(const struct device *, double *multiplier, double *norm, const double *sum_of_squares,
                             const double *loss, double clip, double unscale);

/** Update the weights, states and masters of n sets of elements in place, in order on the compute stream.
 *  @errors E_CONFIG for a dtype that has no kernel, before anything is changed; E_DEVICE  @collective{none} */
enum status optimizer_update(const struct optimizer *, const struct device *, const struct optimizer_settings *,
                             const struct optimizer_elements *, int n);

#ifdef __cplusplus
}
#endif
