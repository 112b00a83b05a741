/* Terms: state of techniques of which each rank has a part, and only the sum over the ranks matters (struct rank_term):
 * residuals. Private to checkpoint*.c.
 *
 * The file of rank r has a tensor "PARAM.KIND". Its metadata "terms" name the param, and the part of it. A file without
 * terms has no such metadata. Several files may have terms for the same elements, because only their sum counts.
 *
 * Read: if the file of each rank's number has exactly the terms of that rank, every rank loads them bit for bit. In any
 * other layout, the terms that take sums (struct rank_term) add up the terms of all files for their elements, and the
 * others are zero. So the sum over the ranks stays the same, except for rounding. */
#pragma once

#include "lib/checkpoint/checkpoint_manifest.h"

enum { CHECKPOINT_TERM_NAME = NAME_MAX_LEN + 16 };

/** Find term i of this rank, over all techniques of the run. @return false: there are only i terms */
bool checkpoint_term(const struct run *, int i, struct rank_term *out);
/** Write the name of a term's tensor: "h0.qkv.w.residual". */
void checkpoint_term_name(const char *param, const char *kind, char out[CHECKPOINT_TERM_NAME]);

/** Set all terms of the run from the open files. If the checkpoint has no terms, the run's become zero; if the run has
 *  no terms, the checkpoint's are dropped. Rank 0 warns of both.
 *  @collective{mesh} @errors E_FORMAT: not finite, or metadata that do not fit; E_IO, E_MEMORY, E_COMM, E_TIMEOUT */
enum status checkpoint_load_terms(struct run *, const struct manifest *);
/** First half of checkpoint_load_terms. *same: the files have the terms of this layout.  @collective{mesh}
 *  @errors E_COMM, E_TIMEOUT */
enum status checkpoint_terms_fit(const struct run *, const struct manifest *, bool *same);
/** Second half: load the terms.  @errors E_FORMAT, E_IO, E_MEMORY  @collective{none} */
enum status checkpoint_take_terms(struct run *, const struct manifest *, bool same);
