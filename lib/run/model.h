/* A model: one row of what lib and the driver ask of it. Its list of steps knows no technique, and no technique knows a
 * model: they meet in the letters of axes. How to add one: docs/how-to/add-a-model.md. */
#ifndef TRIVIUM_RUN_MODEL_H
#define TRIVIUM_RUN_MODEL_H

#include "lib/program/program.h"
#include "lib/run/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sizes that people know by a name: options and values, as in "layers=12 hidden=768". What the user sets stands above
 * them. */
struct model_preset { const char *name, *options; };

struct model {
    const char *name;
    const struct model_preset *presets;                               /* by which --model chooses this row; ends with
                                                                       * {NULL} */
    struct own_options options;                                       /* beside those that all models share, which are
                                                                       * the plan's */
    enum status (*build)(const struct plan *, struct program *);      /* for one rank, whole and unaltered; pure */
    int64_t (*n_params)(const struct plan *);                         /* of the whole model; what is tied counts once,
                                                                       * padding not at all */
    double (*flops_per_token)(const struct plan *);                   /* forward and backward, no recomputation: what
                                                                       * MFU counts */
};

#ifdef __cplusplus
}
#endif
#endif
