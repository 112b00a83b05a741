/* Quantized weights (qwZ of ZeRO++): stage 3 gathers weights as codes (--weight-codec).
 *
 * Idea: a gathered weight that is used once and freed does not need all its bits. Each owner keeps its exact shard and
 * sends a code of it. All ranks compute with the decoded values.
 *
 * Formula, with C(x) the value of x after encoding and decoding (lib/ops/codec.h), w_r the shard of rank r:
 *     every use    w^ = C(w_0) C(w_1) ... C(w_(n-1))      on every rank, on the owner too
 *     update       w_r <- AdamW(w_r, d loss / d w^)       of the exact shard: a straight-through estimator
 * The owner, too, computes with C(w_r). Otherwise the replicas' models would differ, and so would the copies of a
 * whole or tied weight. Gradients need residuals; weights need none, because the exact shard loses nothing.
 * An evaluation computes with w^, as forward does; a checkpoint has w.
 *
 * A new block of the code begins at each shard. So w^ depends on how many ranks share a param (--shard, dp, tp, ep).
 * A layout's reference is therefore one process that rounds the same parts, not the serial run.
 *
 * Which params: those that several ranks share, if a code is shorter than a shard: b < s, with b the bytes of a code
 * and s those of a shard. (An int8 code of one element has 5 bytes, with its scale.) Second shards (zero_second.c) are
 * parts of w^, gathered without codes: to round again, by other blocks, would give backward other weights than forward.
 *
 * Stored where: codes arrive at the end of the gathered weight's own memory, and are decoded from there in rank order:
 *
 *     whole    [ s bytes of shard 0 | of shard 1 | ... | of shard n-1 ]
 *     codes                              [ b of 0 | b of 1 | ... | b of n-1 ]        ends where whole ends
 *
 * Shard r ends at (r + 1) s. Code r + 1 begins at n s - (n - 1 - r) b = (r + 1) s + (n - 1 - r) (s - b), not earlier.
 * So decoding shard r overwrites no later code. It may overwrite its own code, which is first copied to `room` in the
 * comm arena. Encoding also writes to `room`, because a shard that was read from a file lies in whole, too.
 *
 * Sent when: as in zero.c, in (n-1) b bytes per gather. A short shard's code is filled up with zeros.
 *
 * What breaks: an owner that computes with its exact shard; encoding the padding of the last shard, which may hold
 * anything and would set the scale of its block.
 *
 * Source: Wang et al. 2023, "ZeRO++", section 3.1 (qwZ); Bengio et al. 2013 (straight-through). */
#include "zero/zero_quantized.h"

#include "lib/base/integer.h"
#include "lib/comm/coded.h"
#include "zero/zero.h"
#include <inttypes.h>
#include <string.h>

/* ---- refusals ---- */
static enum status check_weights(const struct plan *plan, const char *codec) {
    size_t size = dtype_size(plan_product_dtype(plan));
    if (size == 2 && zero_options(plan)->weight_codec != CODEC_INT8)
        return FAIL(E_CONFIG, "weight-codec=%s has 2 bytes for a weight, and so has precision=%s; use weight-codec "
                              "int8, or none", codec, dtype_name(plan_product_dtype(plan)));
    if (plan->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "weight-codec=%s has no kernels for device=cuda; use device cpu, or weight-codec none",
                    codec);
    if (plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "weight-codec=%s rounds weights by the shards of %" PRId64 " replicas, so sums=fixed "
                              "cannot have the bits of every layout; use sums fast, or weight-codec none", codec,
                    plan->mesh.dp * plan->mesh.cp);
    return OK;
}

enum status zero_quantized_check(const struct plan *plan) {
    const struct zero_options *o = zero_options(plan);
    const char *codec = codec_name((enum codec_kind)o->weight_codec);
    if (o->weight_codec == CODEC_NONE) return OK;
    if (o->stage < 3)
        return FAIL(E_CONFIG, "weight-codec=%s rounds what zero=3 gathers for each use, and at zero=%" PRId64 " a rank "
                              "keeps whole weights, of which its own shard would be exact and the others rounded; use "
                              "zero 3, or weight-codec none", codec, o->stage);
    if (plan->mesh.dp * plan->mesh.cp < 2)
        return FAIL(E_CONFIG, "weight-codec=%s codes what replicas gather from each other, and dp=%" PRId64 "; use dp "
                              "2 or more, or weight-codec none", codec, plan->mesh.dp);
    return check_weights(plan, codec);
}

struct codec zero_quantized_codec(const struct plan *plan) {
    return (struct codec){.kind = (enum codec_kind)zero_options(plan)->weight_codec};
}

/* ---- bytes ---- */
static int64_t shard_bytes(const struct param *w) { return w->shard_n * (int64_t)dtype_size(w->type.dtype); }

int64_t zero_quantized_bytes(const struct codec *codec, const struct program *p, const struct param *w) {
    int64_t n = mesh_size(w->shard_axis, &p->place), code = codec_bytes(codec, w->shard_n);
    bool shorter = codec->kind != CODEC_NONE && w->weight_residence == RESIDENT_OWN &&
                   (n - 1) * code < (n - 1) * shard_bytes(w);
    return shorter ? n * code : 0;
}

/* [ the longest code | a float ]; the float is 0, because codes may end in bytes like the arena's canary. */
int64_t zero_quantized_room_bytes(const struct codec *codec, const struct program *p) {
    int64_t bytes = 0;
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        if (w->present && zero_quantized_bytes(codec, p, w)) bytes = max64(bytes, codec_bytes(codec, w->shard_n));
    }
    return bytes ? arena_align(bytes + (int64_t)sizeof(float)) : 0;
}

/* Encoding one shard and decoding n each pass over a shard and its code (s + b bytes), and copy the code (2 b). */
struct exchange zero_quantized_exchange(const struct codec *codec, const struct program *p, const struct param *w) {
    int64_t bytes = zero_quantized_bytes(codec, p, w), n = mesh_size(w->shard_axis, &p->place);
    return (struct exchange){.axis = w->shard_axis, .op = COMM_ALL_GATHER, .count = bytes, .dtype = UINT8,
                             .packing = (double)(n + 1) * (double)(shard_bytes(w) + 3 * (bytes / n))};
}

/* ---- running ---- */
/* The codes of all shards, at the end of the whole weight. */
static unsigned char *codes_in(const struct zero_quantized *z, const struct program *p, const struct param *w,
                               void *whole) {
    int64_t end = w->padded_n * (int64_t)dtype_size(w->type.dtype);
    return (unsigned char *)whole + end - zero_quantized_bytes(&z->codec, p, w);
}

enum status zero_quantized_start(const struct zero_quantized *z, const struct program *p, const struct param *w,
                                 const struct group *group, const void *own, void *whole,
                                 struct comm_request *request) {
    int rank = group_rank(group);
    int64_t bytes = codec_bytes(&z->codec, w->shard_n);
    int64_t n = coded_own_count(type_n(&w->type), group_size(group), rank);
    unsigned char *codes = codes_in(z, p, w, whole), *mine = codes + rank * bytes;
    codec_encode_as(&z->codec, own, w->type.dtype, n, z->room);
    memset(mine, 0, (size_t)bytes);
    memcpy(mine, z->room, (size_t)codec_bytes(&z->codec, n));
    return comm_all_gather_start(group, mine, codes, bytes, UINT8, request);
}

void zero_quantized_decode(const struct zero_quantized *z, const struct program *p, const struct param *w,
                           void *whole) {
    int64_t bytes = codec_bytes(&z->codec, w->shard_n), size = (int64_t)dtype_size(w->type.dtype);
    int64_t n = type_n(&w->type);
    const unsigned char *codes = codes_in(z, p, w, whole);
    for (int64_t at = 0; at < n; at += w->shard_n, codes += bytes) {
        memcpy(z->room, codes, (size_t)bytes);
        codec_decode_as(&z->codec, z->room, min64(w->shard_n, n - at), (char *)whole + at * size, w->type.dtype);
    }
    memset((char *)whole + n * size, 0, (size_t)((w->padded_n - n) * size));
}
