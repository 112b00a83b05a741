/* A key-value cache for one layer and one text, and the contract of this exercise.
 *
 * H heads of D channels ask; J heads of keys and values answer, each for H/J neighboring ones (head h asks key head
 * h / (H/J)). The cache has room for `room` positions. Positions 0 .. length - 1 are in it:
 *
 *   keys[(j * room + t) * D + d]     channel d of key head j at position t; values likewise
 *
 * So the keys of a head lie one after the other, and a query reads memory from front to end. What lies at positions
 * from `length` on has no meaning. It may be NaN, and no result may depend on it.
 *
 * New tokens come n at a time: a prompt many at once (prefill), an answer one after the other (decoding). Token i of
 * the n new ones is position t = length + i, and sees the positions 0 .. t:
 *
 *   s[j] = q[t] . k[j] / sqrt(D)      p[j] = e^s[j] / sum_j e^s[j]      y[t] = sum_j p[j] v[j]
 *
 * Scores may be in the thousands: e^s alone overflows. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct cache {
    int64_t H, J, D, room;     /* J divides H; all at least 1 */
    int64_t length;            /* positions that are in it */
    double *keys, *values;     /* (J, room, D) each; borrowed */
};

/** Bytes of the keys and values that one rank keeps: of all layers, for `sequences` texts of `seq` positions, with
 *  `key_heads` heads of `channels` each, of which tp ranks have equal shares, at `bytes` per number.
 *  @collective{none} */
int64_t cache_bytes(int64_t layers, int64_t key_heads, int64_t channels, int64_t seq, int64_t sequences, int64_t bytes,
                    int64_t tp);

/** Read n new tokens. q (n,H,D), k and v (n,J,D), y (n,H,D) written. Their keys and values are put into the cache, and
 *  `length` grows by n. More than there is room for: E_CONFIG ("room ..."), and neither the cache nor y changes.
 *  n >= 1. @collective{none} @errors E_CONFIG */
enum status cache_read(struct cache *, const double *q, const double *k, const double *v, int64_t n, double *y);
