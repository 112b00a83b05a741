/* What a checkpoint says of the data that its run was trained on, and of the optimizer's settings. Private to
 * checkpoint*.c, but for checkpoint_check_data (checkpoint.h).
 *
 *   "data": {"train":      {"kind": "llm.c, u16 tokens", "tokens": "3000", "xxh3": "...", "first": "0", "n": "2700"},
 *            "validation": the same, of where it is evaluated; left out where it is not,
 *            "options":    what the model makes data by ("mask-token"), and its other options}
 *
 * kind, tokens and xxh3 (data_hash) are of the whole stream, first and n of the part that the split gives. Tokens are
 * compared, and not the files that hold them: the same tokens of a text, of llm.c's or Megatron's file are the same. */
#pragma once

#include "lib/run/run.h"
#include <jansson.h>

/** The manifest's members "data" and of the optimizer's name, of a run as it is. New references; NULL: no memory. */
json_t *checkpoint_data_json(const struct run *);
json_t *checkpoint_optimizer_json(const struct plan *);
/** Put the table of cuBLASLt's algorithms that this process multiplies by (lib/run/products.h) into the member
 *  "layout", as "gemm-algorithms"; nothing where there is none. */
void checkpoint_algorithms(json_t *layout);
/** Has a run the data of this manifest? `where`: the manifest's path. What need not be refused, rank 0 logs.
 *  @errors E_DATA: others, without other_data  @collective{none} */
enum status checkpoint_data_compare(const json_t *manifest, const char *where, const struct run *, bool other_data);
