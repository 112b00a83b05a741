/* Decoding: the training program, rewritten to read one new token at a time. See decode.c. */
#pragma once

#include "lib/run/technique.h"

/** The last technique in a recipe, after those that determine a rank's shards (tp) and the precision. */
extern const struct technique technique_decode;

/** Set the position (from 0) and number of the next tokens: change one axis, and infer every op's shapes again. n is at
 *  most plan.prefill.  @errors E_CONFIG: beyond the sequence  @collective{none} */
enum status decode_move(struct program *, int64_t position, int64_t n);

/** Bytes of a rank's keys and values of one sequence: 2 x layers x seq x width of the key heads / tp x bytes of an
 *  element; of its latents: layers x seq x (kv-lora-rank + rope-head-dim) x bytes of an element. */
int64_t decode_cache_bytes(const struct plan *);
