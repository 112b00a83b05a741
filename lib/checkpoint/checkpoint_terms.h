/* What techniques keep of each rank that is a term of a sum over the ranks (struct rank_term): residuals. Private to
 * checkpoint*.c.
 *
 * In the file of rank r, the tensor "PARAM.KIND"; its metadata "terms" say of which param and which part of it. Files
 * without any have no such metadata. Elements of different files may be the same ones: it is their sum that counts.
 *
 * Read: if every rank finds in the file of its own number just the terms that it has itself, it takes those, bit for
 * bit. In any other layout the terms that take sums (struct rank_term) get, file by file, all that there is of their
 * elements, and the others are zero. So the sum over the ranks stays what it was, but for rounding. */
#pragma once

#include "lib/checkpoint/checkpoint_manifest.h"

enum { CHECKPOINT_TERM_NAME = NAME_MAX_LEN + 16 };

/** Term i of all that the run's techniques have on this rank; false: there are only i. */
bool checkpoint_term(const struct run *, int i, struct rank_term *out);
/** "h0.qkv.w.residual" */
void checkpoint_term_name(const char *param, const char *kind, char out[CHECKPOINT_TERM_NAME]);

/** Set all terms of the run from the files, which are open. A checkpoint without any leaves zeros, and one whose terms
 *  the run has no use for drops them: rank 0 warns of both.
 *  @collective{mesh} @errors E_FORMAT: not finite, or metadata that do not fit; E_IO, E_MEMORY, E_COMM, E_TIMEOUT */
enum status checkpoint_load_terms(struct run *, const struct manifest *);
/** Its two halves. Are they of this layout?  @collective{mesh} @errors E_COMM, E_TIMEOUT */
enum status checkpoint_terms_fit(const struct run *, const struct manifest *, bool *same);
/** And take them.  @errors E_FORMAT, E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_take_terms(struct run *, const struct manifest *, bool same);
