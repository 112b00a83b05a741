#include "lib/ops/codec.h"

#include "lib/base/integer.h"
#include "lib/device/dtype.h"
#include <math.h>

/* Read and write the numbers in a code, which are not aligned. */
static void put_float(unsigned char *code, int64_t i, float x) { memcpy(code + 4 * i, &x, sizeof x); }
static float get_float(const unsigned char *code, int64_t i) {
    float x;
    memcpy(&x, code + 4 * i, sizeof x);
    return x;
}

/* ---- a byte for a float: the scales of all blocks, then the bytes ---- */
static int64_t n_blocks(int64_t n) { return ceil_div(n, CODEC_BLOCK); }
static int64_t int8_bytes(int64_t n) { return n + 4 * n_blocks(n); }

static float int8_scale(const float *x, int64_t n) {
    float max = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(x[i])) return NAN;
        max = fmaxf(max, fabsf(x[i]));
    }
    return max / 127;
}

/* The clamps: a scale below 2^-126 is rounded so coarsely that x/s may exceed 127. */
static int8_t int8_of(float x, float scale) {
    return (int8_t)(scale > 0 ? fmaxf(-127, fminf(127, nearbyintf(x / scale))) : 0);
}

static void int8_encode(const float *x, int64_t n, int64_t first, int count, unsigned char *code) {
    unsigned char *bytes = code + 4 * n_blocks(n) + first;
    float scale = int8_scale(x, count);
    put_float(code, first / CODEC_BLOCK, scale);
    for (int i = 0; i < count; i++) bytes[i] = (unsigned char)int8_of(x[i], scale);
}

static void int8_block(const unsigned char *code, int64_t n, int64_t first, int count, float *x) {
    float scale = get_float(code, first / CODEC_BLOCK);
    const unsigned char *bytes = code + 4 * n_blocks(n) + first;
    for (int i = 0; i < count; i++) x[i] = scale * (float)(int8_t)bytes[i];
}

/* ---- a bit for a float ---- */
static int64_t sign_bytes(int64_t n) { return 4 + ceil_div(n, 8); }

static void sign_encode(const float *x, int64_t n, unsigned char *code) {
    double sum = 0;
    memset(code, 0, (size_t)sign_bytes(n));
    for (int64_t i = 0; i < n; i++) {
        sum += fabs((double)x[i]);
        code[4 + i / 8] |= (unsigned char)((x[i] < 0) << i % 8);
    }
    put_float(code, 0, n == 0 ? 0 : isfinite(sum) ? (float)(sum / (double)n) : NAN);
}

static void sign_block(const unsigned char *code, int64_t n, int64_t first, int count, float *x) {
    float scale = get_float(code, 0);
    (void)n;
    for (int i = 0; i < count; i++) x[i] = code[4 + (first + i) / 8] >> (first + i) % 8 & 1 ? -scale : scale;
}

/* ---- the table ---- */
static const struct row {
    const char *name;
    bool wants_feedback;
    enum dtype dtype;                    /* of the codes of rows without functions: those are casts */
    int64_t (*bytes)(int64_t n);
    /* x[0..count): elements first .. first + count - 1 of n; CODEC_BLOCK divides first, and count <= CODEC_BLOCK */
    void (*encode)(const float *x, int64_t n, int64_t first, int count, unsigned char *code);
    void (*block)(const unsigned char *code, int64_t n, int64_t first, int count, float *x);
} ROWS[N_CODECS] = {
    [CODEC_NONE] = {"none", false, FP32, NULL, NULL, NULL},
    [CODEC_BF16] = {"bf16", false, BF16, NULL, NULL, NULL},
    [CODEC_FP16] = {"fp16", false, FP16, NULL, NULL, NULL},
    [CODEC_INT8] = {"int8", false, 0, int8_bytes, int8_encode, int8_block},
    [CODEC_SIGN] = {"sign", true, 0, sign_bytes, NULL, sign_block},  /* one scale for all n: see sign_encode */
    [CODEC_TOPK] = {"topk", true, 0, NULL, NULL, NULL},              /* sparse: codec_topk.c */
};

const char *codec_name(enum codec_kind kind) { return ROWS[kind].name; }
bool codec_wants_feedback(enum codec_kind kind) { return ROWS[kind].wants_feedback; }

int64_t codec_bytes(const struct codec *c, int64_t n) {
    const struct row *r = &ROWS[c->kind];
    if (c->kind == CODEC_TOPK) return 8 * codec_topk_count(c->topk_percent, n);
    return r->bytes ? r->bytes(n) : n * (int64_t)dtype_size(r->dtype);
}

static void encode_block(const struct row *r, const float *x, int64_t n, int64_t first, int count,
                         unsigned char *code) {
    if (r->encode) r->encode(x, n, first, count, code);
    else dtype_convert(code + first * (int64_t)dtype_size(r->dtype), r->dtype, x, FP32, count);
}
static void decode_block(const struct row *r, const unsigned char *code, int64_t n, int64_t first, int count,
                         float *x) {
    if (r->block) r->block(code, n, first, count, x);
    else dtype_convert(x, FP32, code + first * (int64_t)dtype_size(r->dtype), r->dtype, count);
}

static int block_count(int64_t n, int64_t first) {
    return n - first < CODEC_BLOCK ? (int)(n - first) : CODEC_BLOCK;
}

void codec_encode(const struct codec *c, const float *x, int64_t n, void *code) {
    if (c->kind == CODEC_TOPK) codec_topk_encode(x, n, codec_topk_count(c->topk_percent, n), code);
    else if (c->kind == CODEC_SIGN) sign_encode(x, n, code);
    else
        for (int64_t first = 0; first < n; first += CODEC_BLOCK)
            encode_block(&ROWS[c->kind], x + first, n, first, block_count(n, first), code);
}

void codec_encode_as(const struct codec *c, const void *x, enum dtype dtype, int64_t n, void *code) {
    float v[CODEC_BLOCK];
    for (int64_t first = 0; first < n; first += CODEC_BLOCK) {
        int count = block_count(n, first);
        dtype_convert(v, FP32, (const char *)x + first * (int64_t)dtype_size(dtype), dtype, count);
        encode_block(&ROWS[c->kind], v, n, first, count, code);
    }
}

/* A function of its own, never inlined: the compiler must not fuse the product that made v with this addition, because
 * v's rounding would be lost. */
__attribute__((noinline)) static void combine(float *x, const float *v, int n, enum codec_into into) {
    if (into == CODEC_SET) memcpy(x, v, (size_t)n * sizeof *x);
    else if (into == CODEC_ADD)
        for (int i = 0; i < n; i++) x[i] += v[i];
    else
        for (int i = 0; i < n; i++) x[i] -= v[i];
}

void codec_decode(const struct codec *c, const void *code, int64_t n, float *x, enum codec_into into) {
    float v[CODEC_BLOCK];
    if (c->kind == CODEC_TOPK) {
        codec_topk_decode(code, codec_topk_count(c->topk_percent, n), x, n, into);
        return;
    }
    for (int64_t first = 0; first < n; first += CODEC_BLOCK) {
        int count = block_count(n, first);
        decode_block(&ROWS[c->kind], code, n, first, count, v);
        combine(x + first, v, count, into);
    }
}

void codec_decode_as(const struct codec *c, const void *code, int64_t n, void *x, enum dtype dtype) {
    float v[CODEC_BLOCK];
    for (int64_t first = 0; first < n; first += CODEC_BLOCK) {
        int count = block_count(n, first);
        decode_block(&ROWS[c->kind], code, n, first, count, v);
        dtype_convert((char *)x + first * (int64_t)dtype_size(dtype), dtype, v, FP32, count);
    }
}
