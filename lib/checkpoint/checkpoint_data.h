/* A checkpoint's record of the training data and of the optimizer's settings. Private to checkpoint*.c, except for
 * checkpoint_check_data (checkpoint.h).
 *
 *   "data": {"train":      {"kind": "llm.c, u16 tokens", "tokens": "3000", "xxh3": "...", "first": "0", "n": "2700"},
 *            "validation": the same members for the validation data; absent without evaluation,
 *            "options":    the options by which the model makes data ("mask-token"), and its other options}
 *
 * kind, tokens and xxh3 (data_hash) describe the whole stream; first and n are the range that the split selects. Tokens
 * are compared, not files: the same tokens in a text, in llm.c's or in Megatron's format count as the same data. */
#pragma once

#include "lib/run/run.h"
#include <jansson.h>

/** The manifest's members of a run's data, and of the settings that change what it computes: its optimizer's, those of
 *  techniques in the groups "training" and "precision", dropout, and the losses and places of experts. New references;
 *  NULL: no memory. */
json_t *checkpoint_data_json(const struct run *);
json_t *checkpoint_optimizer_json(const struct plan *);
/** Add the table of cuBLASLt's algorithms that this process uses (lib/run/products.h) to the member "layout", as
 *  "gemm-algorithms". Without such a table nothing is added. */
void checkpoint_algorithms(json_t *layout);
/** Does a run have the data of this manifest? `where`: the manifest's path. Rank 0 logs differences that are no error.
 *  @errors E_DATA: other data, without other_data @collective{none} */
enum status checkpoint_data_compare(const json_t *manifest, const char *where, const struct run *, bool other_data);
