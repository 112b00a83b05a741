#include "lib/checkpoint/hf_blocks.h"

#include "lib/base/integer.h"
#include "lib/ops/block.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SCALES = 256, CODES = 16, AT_A_TIME = 2048 };                 /* AT_A_TIME: blocks */
static const char CODES_END[] = "_blocks", SCALES_END[] = "_scales";

bool hf_blocks_named(const char *tensor) {
    size_t n = strlen(tensor), end = strlen(CODES_END);
    return n >= end && !strcmp(tensor + n - end, CODES_END);
}

enum status hf_check_axes(const char *path, const struct safetensors_entry *e, int n_axes, const int64_t *shape) {
    if (e->n_axes != n_axes)
        return FAIL(E_FORMAT, "%s: tensor %s has %d axes, not %d", path, e->name, e->n_axes, n_axes);
    for (int a = 0; a < n_axes; a++)
        if (e->shape[a] != shape[a])
            return FAIL(E_FORMAT, "%s: axis %d of tensor %s is %" PRId64 ", not %" PRId64, path, a, e->name,
                        e->shape[a], shape[a]);
    return OK;
}

static enum status check(const char *path, const struct safetensors_entry *e, int n_axes, const int64_t *shape) {
    if (e->dtype != UINT8)
        return FAIL(E_FORMAT, "%s: tensor %s is %s; MXFP4 has U8", path, e->name, e->dtype_name);
    return hf_check_axes(path, e, n_axes, shape);
}

enum status hf_blocks_find(const struct hf_files *files, const struct safetensors_entry *codes, int n_axes,
                           const int64_t *shape, struct hf_tensor *scales) {
    const char *path = hf_files_path(files);
    int64_t axes[SAFETENSORS_MAX_AXES], n = shape[n_axes - 1];
    char name[256];
    snprintf(name, sizeof name, "%.*s%s", (int)(strlen(codes->name) - strlen(CODES_END)), codes->name, SCALES_END);
    if (n % HF_BLOCK)
        return FAIL(E_FORMAT, "%s: tensor %s is in blocks of %d numbers, and the model has rows of %" PRId64
                    "; is config.json its own?", path, codes->name, HF_BLOCK, n);
    *scales = hf_files_find(files, name);
    if (!scales->entry)
        return FAIL(E_FORMAT, "%s: tensor %s is missing; %s needs a scale for each block", path, name, codes->name);
    memcpy(axes, shape, (size_t)n_axes * sizeof *axes);
    axes[n_axes - 1] = n / HF_BLOCK, axes[n_axes] = HF_BLOCK_BYTES;
    TRY(check(path, codes, n_axes + 1, axes));
    return check(path, scales->entry, n_axes, axes);
}

/* ---- reading ---- */

/* The numbers of all codes with all scales, in bf16; infinity where bf16 has no such number. */
static void fill(uint16_t number[SCALES][CODES]) {
    static const struct block_format MXFP4 = {FP4_E2M1, HF_BLOCK, BLOCK_SCALE_UP};
    uint8_t code[CODES];
    double value[CODES];
    for (int c = 0; c < CODES; c++) code[c] = (uint8_t)c;
    for (int s = 0; s < SCALES; s++) {
        block_values(&MXFP4, CODES, code, (uint8_t)s, value);
        dtype_convert(number[s], BF16, value, FP64, CODES);
    }
}

/* One block: its numbers. @return false: one is not finite */
static bool read_block(const uint16_t number[CODES], const uint8_t bytes[HF_BLOCK_BYTES], uint16_t to[HF_BLOCK]) {
    uint8_t code[HF_BLOCK];
    block_unpack(FP4_E2M1, HF_BLOCK, bytes, code);
    for (int i = 0; i < HF_BLOCK; i++) to[i] = number[code[i]];
    return dtype_all_finite(to, BF16, HF_BLOCK);
}

enum status hf_blocks_read(const char *path, struct hf_tensor codes, struct hf_tensor scales, int64_t first, int64_t n,
                           uint16_t *to) {
    uint16_t number[SCALES][CODES];
    uint8_t bytes[AT_A_TIME][HF_BLOCK_BYTES], scale[AT_A_TIME];
    fill(number);
    for (int64_t at = first / HF_BLOCK, end = (first + n) / HF_BLOCK; at < end; at += AT_A_TIME) {
        int64_t now = min64(AT_A_TIME, end - at);
        TRY(safetensors_read(codes.file, codes.entry, at * HF_BLOCK_BYTES, now * HF_BLOCK_BYTES, bytes));
        TRY(safetensors_read(scales.file, scales.entry, at, now, scale));
        for (int64_t k = 0; k < now; k++, to += HF_BLOCK)
            if (!read_block(number[scale[k]], bytes[k], to))
                return FAIL(E_FORMAT, "%s: block %" PRId64 " of %s has the scale %d, with which a number is not finite "
                            "in bf16; 2^(scale - 127) goes up to 252 for all numbers, and 255 is NaN", path, at + k,
                            codes.entry->name, scale[k]);
    }
    return OK;
}
