/* Codecs: n floats as fewer bytes, and what they are taken for afterwards. Host memory, fp32.
 *
 *   name   bytes(n)               a float becomes
 *   none   4 n                    itself
 *   bf16   2 n                    the nearest bf16: off by 2^-8 of itself at most (normal numbers)
 *   fp16   2 n                    the nearest fp16: off by 2^-11 of itself; infinite from 65520 on, in steps of 2^-24
 *                                 below 2^-14
 *   int8   n + 4 ceil(n/256)      a multiple of s = max|x| / 127 of its block of 256: off by s/2
 *   sign   4 + ceil(n/8)          +s or -s, s = mean|x| of all n; zero counts as positive
 *   topk   8 ceil(n percent/100)  itself, if among the largest of magnitude (of equals the first in memory), else 0
 *
 * NaN stays NaN. Infinity stays so with none, bf16, fp16 and topk; int8 and sign have no code for it, and make the
 * scale NaN, and with it the whole block. So no codec hides that a gradient is not finite.
 *
 * Numbers within the code lie unaligned, in the machine's byte order.
 *
 * Source: Seide et al. 2014, "1-bit stochastic gradient descent" (sign); Karimireddy et al. 2019, "Error feedback fixes
 * SignSGD" (the scale mean|x|); Lin et al. 2018, "Deep gradient compression" (topk); Wang et al. 2023, "ZeRO++" (int8
 * by blocks). */
#pragma once

#include "lib/device/dtype.h"
#include <stdbool.h>
#include <stdint.h>

enum codec_kind { CODEC_NONE, CODEC_BF16, CODEC_FP16, CODEC_INT8, CODEC_SIGN, CODEC_TOPK, N_CODECS };
enum { CODEC_BLOCK = 256 };
struct codec { enum codec_kind kind; double topk_percent; };

/** "int8" */
const char *codec_name(enum codec_kind);
/** Is what it rounds away as large as what it keeps, so that it has to be added to the next gradient (error feedback)
 *  for training to converge? */
bool codec_wants_feedback(enum codec_kind);
/** Exact size, in bytes, of the code of n floats; n >= 0. */
int64_t codec_bytes(const struct codec *, int64_t n);
/** x (n) -> code, codec_bytes(n) of them. They do not overlap. */
void codec_encode(const struct codec *, const float *x, int64_t n, void *code);

enum codec_into { CODEC_SET, CODEC_ADD, CODEC_SUBTRACT };
/** x (n) = the floats that the code stands for, or += or -= them: each is rounded to a float before it is added, so
 *  that all ranks that decode agree on every bit. n: as it was encoded. */
void codec_decode(const struct codec *, const void *code, int64_t n, float *x, enum codec_into);

/** The same of x (n) in any floating dtype, for codecs of blocks (none, bf16, fp16, int8): each element is rounded to a
 *  float before it is encoded, and what the code stands for to the dtype after. Here x is set. */
void codec_encode_as(const struct codec *, const void *x, enum dtype, int64_t n, void *code);
void codec_decode_as(const struct codec *, const void *code, int64_t n, void *x, enum dtype);

/* Functions of codec_topk.c that codec.c calls. */
int64_t codec_topk_count(double percent, int64_t n);
void codec_topk_encode(const float *x, int64_t n, int64_t k, unsigned char *code);   /* x (n), k pairs: 8 k bytes */
void codec_topk_decode(const unsigned char *code, int64_t k, float *x, int64_t n, enum codec_into);   /* x (n) */
