/* Decoding: the training program, rewritten to read one new token at a time. See decode.c. */
#ifndef TRIVIUM_DECODE_DECODE_H
#define TRIVIUM_DECODE_DECODE_H

#include "lib/run/technique.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Stands last in a recipe, after those that say what a rank holds (tp) and in which precision. */
extern const struct technique technique_decode;

/** The next token stands at this position, from 0: one axis is moved, and every op is asked for its shape again.
 *  @errors E_CONFIG: beyond the sequence  @collective{none} */
enum status decode_move(struct program *, int64_t position);

/** Bytes that a rank's keys and values take: 2 x layers x seq x hidden / tp x bytes of an element. */
int64_t decode_cache_bytes(const struct plan *);

#ifdef __cplusplus
}
#endif
#endif
