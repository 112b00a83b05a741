/* A key-value cache for one layer and one text, and the contract of this exercise.
 *
 * There are H heads of queries and J heads of keys and values, of D channels each. Query head h reads key head
 * h / (H/J), so H/J consecutive heads share a key head. The cache has room for `room` positions, and holds positions
 * 0 .. length - 1:
 *
 *   keys[(j * room + t) * D + d]     channel d of key head j at position t; values likewise
 *
 * So the keys of a head are contiguous, and a query reads memory in order. The contents of positions from `length` on
 * are undefined, possibly NaN. No result may depend on them.
 *
 * New tokens come n at a time: a prompt with many tokens at once (prefill), an answer one token after the other
 * (decoding). Token i of the n new ones is position t = length + i, and sees the positions 0 .. t:
 *
 *   s[j] = q[t] . k[j] / sqrt(D)      p[j] = e^s[j] / sum_j e^s[j]      y[t] = sum_j p[j] v[j]
 *
 * Scores may be in the thousands, so that e^s overflows without a subtracted maximum. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct cache {
    int64_t H, J, D, room;     /* J divides H; all at least 1 */
    int64_t length;            /* positions in the cache */
    double *keys, *values;     /* (J, room, D) each; borrowed */
};

/** Bytes of the keys and values that one rank keeps, over all layers, for `sequences` texts of `seq` positions. There
 *  are `key_heads` heads of `channels` channels, divided equally among tp ranks, with `bytes` bytes per number.
 *  @collective{none} */
int64_t cache_bytes(int64_t layers, int64_t key_heads, int64_t channels, int64_t seq, int64_t sequences, int64_t bytes,
                    int64_t tp);

/** Read n >= 1 new tokens. q (n,H,D), k and v (n,J,D), y (n,H,D) written. Their keys and values are added to the cache,
 *  and `length` grows by n. Without room for n positions return E_CONFIG ("room ..."), and change neither the cache nor
 *  y. @collective{none} @errors E_CONFIG */
enum status cache_read(struct cache *, const double *q, const double *k, const double *v, int64_t n, double *y);
