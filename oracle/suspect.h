/* Suspects: likely causes of a wrong tensor, by signatures.
 *
 * A signature is a relation between the wrong and the right tensor that a known kind of mistake causes: exactly half
 * the values, the values of the step before, rows in another order. A signature is a hint and no proof, so each one
 * says how to confirm it. The relation must hold within the tensor's rounding error (check.h). */
#pragma once

#include "oracle/check.h"

enum { MAX_SUSPECTS = 3 };

/* The evidence on a tensor and its step. x: the run's tensor; y: the reference's; before: the reference's of the step
 * before, or the weight of a moment. .x is NULL if it is not there. Step 0 of a reference has the weights of its
 * model/, and one before it nothing. */
struct evidence {
    struct checked c;
    struct whole x, y, before;
    struct kept *run, *reference;        /* all pieces of the step */
    struct kept *last, *older;           /* the reference's of the step before, and of the one before that */
    double limit;                        /* largest absolute difference that rounding explains */
    int ranks;                           /* number of ranks that recorded */
    enum dtype dtype;                    /* the run's precision */
    const struct calls *calls;           /* of the run; NULL: none */
    const json_t *adamw;                 /* the reference's optimizer; NULL in tests that need none */
    double clip_factor;
};

/* detail: the measured numbers. */
struct suspicion { const char *id, *what, *confirm; char detail[160]; };

/** The signatures that fit, at most MAX_SUSPECTS, most specific first. @return their number  @collective{none} */
int suspect_all(const struct evidence *, struct suspicion out[MAX_SUSPECTS]);

/** Suspects for the first wrong tensor of a check; *n: their number. @errors as check_recordings  @collective{none} */
enum status suspect_first(const struct check *, struct suspicion out[MAX_SUSPECTS], int *n);

/* ---- the parts; more in causes/causes.h ---- */
typedef bool signature(const struct evidence *, char detail[160]);
/* suspect_ranks.c: compares the ranks' values */
signature suspect_untied, suspect_one_rank;
/* suspect_shape.c: compares the elements of the wrong and the right tensor */
signature suspect_zero, suspect_ratio, suspect_stale, suspect_shifted, suspect_transposed, suspect_permuted,
    suspect_positions, suspect_region, suspect_constant_vector, suspect_dropout;
/* suspect_update.c: norm and optimizer */
signature suspect_norm_counts, suspect_unclipped, suspect_coupled_decay, suspect_decay, suspect_rate,
    suspect_bias_correction, suspect_epsilon;

/** Is |x - factor y| within the limit for all elements? A factor above 1 widens the limit. */
bool suspect_same(const struct evidence *, const double *x, const double *y, double factor);
/** The run's difference from base over the reference's, if this is one factor for all elements, and not 0. */
bool suspect_factor(const struct evidence *, const double *base, double *factor);
/** All wrong elements lie at places [first, end) of this axis. Would noise, with one relative error everywhere, bring
 *  this less than once in a million tensors? */
bool suspect_is_part(const struct evidence *, int axis, int64_t first, int64_t end);
bool suspect_ends_with(const char *name, const char *suffix);
/** How many times does the wrong norm count these squares? 0: not at all; NAN: no whole number fits. */
double suspect_times_counted(const struct evidence *, double squares);
void suspect_say_times(double times, const char *what, char detail[160]);
