/* The k largest of n, as pairs of index (int32) and float, by ascending index.
 *
 * No sort and no scratch: the bits of |x| are ordered as |x| is, with NaN above infinity, so numbers that are not
 * finite are kept first. The k-th largest is found digit by digit (11, 11 and 9 bits). Among the numbers that start
 * with the digits found, count each next digit; then descend from the largest digit until k numbers are counted. */
#include "lib/ops/codec.h"

#include "lib/device/dtype.h"
#include <math.h>

int64_t codec_topk_count(double percent, int64_t n) { return (int64_t)ceil((double)n * percent / 100); }

static uint32_t magnitude(float x) { return dtype_bits_of(x) & 0x7fffffffu; }

/* The magnitude of the k-th largest, 1 <= k <= n. *ties: the number of elements with this magnitude among the k. */
static uint32_t threshold(const float *x, int64_t n, int64_t k, int64_t *ties) {
    static const int SHIFT[] = {20, 9, 0}, WIDTH[] = {11, 11, 9};
    uint32_t found = 0;
    for (int level = 0; level < 3; level++) {
        int64_t times[1 << 11] = {0};
        int above = SHIFT[level] + WIDTH[level];
        uint32_t digit = (1u << WIDTH[level]) - 1;
        for (int64_t i = 0; i < n; i++)
            if (magnitude(x[i]) >> above == found >> above) times[magnitude(x[i]) >> SHIFT[level] & digit]++;
        while (times[digit] < k) k -= times[digit--];
        found |= digit << SHIFT[level];
    }
    *ties = k;
    return found;
}

void codec_topk_encode(const float *x, int64_t n, int64_t k, unsigned char *code) {
    int64_t ties;
    if (k == 0) return;
    uint32_t least = threshold(x, n, k, &ties);
    for (int64_t i = 0; i < n; i++) {
        if (magnitude(x[i]) < least || (magnitude(x[i]) == least && ties-- <= 0)) continue;
        int32_t index = (int32_t)i;
        memcpy(code, &index, sizeof index);
        memcpy(code + 4, &x[i], sizeof x[i]);
        code += 8;
    }
}

void codec_topk_decode(const unsigned char *code, int64_t k, float *x, int64_t n, enum codec_into into) {
    if (into == CODEC_SET) memset(x, 0, (size_t)n * sizeof *x);
    for (; k > 0; k--, code += 8) {
        int32_t index;
        float value;
        memcpy(&index, code, sizeof index);
        memcpy(&value, code + 4, sizeof value);
        if (into == CODEC_SET) x[index] = value;
        else x[index] += into == CODEC_ADD ? value : -value;
    }
}
