/* Codecs: encode n floats in fewer bytes, and decode them. Host memory, fp32.
 *
 *   name   bytes(n)               a float becomes
 *   none   4 n                    itself
 *   bf16   2 n                    the nearest bf16: relative error at most 2^-8 (normal numbers)
 *   fp16   2 n                    the nearest fp16: relative error at most 2^-11; infinite from 65520 on; in steps of
 *                                 2^-24 below 2^-14
 *   int8   n + 4 ceil(n/256)      the nearest multiple of s = max|x| / 127 of its block of 256: error at most s/2
 *   sign   4 + ceil(n/8)          +s or -s, s = mean|x| of all n; zero counts as positive
 *   topk   8 ceil(n percent/100)  itself if it is among the largest magnitudes (of equal ones, the first), else 0
 *
 * NaN stays NaN. Infinity stays infinity with none, bf16, fp16 and topk. int8 and sign have no code for infinity: they
 * make the scale NaN, so that all floats with this scale become NaN. So no codec hides that a gradient is not finite.
 *
 * Numbers within the code are unaligned, in the machine's byte order.
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
/** Must the codec's error be added to the next gradient (error feedback), because it is as large as the decoded
 *  gradient? Training does not converge without. */
bool codec_wants_feedback(enum codec_kind);
/** Exact size, in bytes, of the code of n floats; n >= 0. */
int64_t codec_bytes(const struct codec *, int64_t n);
/** Encode x (n) to code, of codec_bytes(n) bytes. They do not overlap. */
void codec_encode(const struct codec *, const float *x, int64_t n, void *code);

enum codec_into { CODEC_SET, CODEC_ADD, CODEC_SUBTRACT };
/** Decode to x (n): set, add or subtract. Each decoded number is rounded to a float before it is added, so that all
 *  ranks that decode agree on every bit. n must be that of codec_encode. */
void codec_decode(const struct codec *, const void *code, int64_t n, float *x, enum codec_into);

/** Encode and decode x (n) in any floating dtype, with a codec that works by blocks (none, bf16, fp16, int8). Each
 *  element is rounded to a float before it is encoded, and from a float to the dtype after. Decoding sets x. */
void codec_encode_as(const struct codec *, const void *x, enum dtype, int64_t n, void *code);
void codec_decode_as(const struct codec *, const void *code, int64_t n, void *x, enum dtype);

/* Functions of codec_topk.c that codec.c calls. */
int64_t codec_topk_count(double percent, int64_t n);
void codec_topk_encode(const float *x, int64_t n, int64_t k, unsigned char *code);   /* x (n), k pairs: 8 k bytes */
void codec_topk_decode(const unsigned char *code, int64_t k, float *x, int64_t n, enum codec_into);   /* x (n) */
