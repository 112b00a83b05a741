/* Muon: matrices are updated by their orthogonalized momentum. See muon.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_muon;

enum muon_adjust { MUON_ORIGINAL, MUON_MATCH_RMS_ADAMW, MUON_SPECTRAL_UNCLAMPED };
struct muon_options {
    double momentum, lr;                 /* lr 0: the option lr */
    int64_t steps;                       /* of the iteration */
    int nesterov, adjust;                /* enum muon_adjust */
};
static inline struct muon_options *muon_options(const struct plan *p) { return plan_own(p, &technique_muon.options); }

/** The factor of lr for a matrix of this shape. Pure. */
double muon_adjusted(enum muon_adjust, int64_t rows, int64_t columns);
