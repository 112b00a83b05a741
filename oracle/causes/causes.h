/* The finding on the first wrong tensor: signatures that need other tensors, of the run, of the reference, and of the
 * steps before (causes.c, with some more), and the text (finding.c). */
#pragma once

#include "oracle/suspect.h"
#include <stdio.h>

signature suspect_unsummed, suspect_unaveraged, suspect_group, suspect_accumulated, suspect_own_norms,
    suspect_mean_of_means, suspect_betas, suspect_scores, suspect_unmasked_rows, suspect_counted_logits;
/* values.c: compares the values with those of other places, precisions and steps */
signature suspect_other_samples, suspect_rounded, suspect_by_token, suspect_begun_again, suspect_other_step,
    suspect_norm_of_family, suspect_stale_weights;

/** Targets that the run does not ignore, over all of them; 1: it does not say. */
double suspect_share_of_targets(const struct evidence *);
/** What has this number, in words: ranks, of a group's calls first, clipping, targets; "": nothing. Two single numbers
 *  always have a factor, so for them only those count that have a name. */
void suspect_name_factor(const struct evidence *, double factor, char name[96]);

/** Write what can be pasted into an issue below the name of a check's first wrong tensor: error in eps of the run's
 *  dtype, limit, worst element, suspects, and the programs of both recordings. version: this program's. *n, suspect: as
 *  suspect_first.  @errors as check_recordings  @collective{none} */
enum status finding_write(const struct check *, const char *version, struct suspicion suspect[MAX_SUSPECTS], int *n,
                          FILE *to);
/** "transformer.h.3.mlp.c_fc.weight.grad" -> 3; -1 if the name has no layer. */
int finding_layer(const char *name);
