#include "lib/base/exact.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { LIMB_BITS = 32, LOWEST = -320, MOST_ADDED = 1 << 30, DOUBLE_BITS = 53, ALONE = 4 << 10 };
#define LIMB_MASK 0xFFFFFFFFu

/* Carry from each limb to the next. Then each limb is in [0, 2^32), except the last, which keeps the sign. */
static void carry(int64_t limb[EXACT_LIMBS]) {
    for (int i = 0; i + 1 < EXACT_LIMBS; i++) {
        int64_t over = limb[i] >> LIMB_BITS;
        limb[i] &= LIMB_MASK;
        limb[i + 1] += over;
    }
}

/* x = m 2^e, with m and e from the bits of the double x, which must be finite. @return m */
static int64_t take_apart(double x, int *e) {
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> (DOUBLE_BITS - 1)) & 0x7FF;
    int64_t m = (bits & ((1LL << (DOUBLE_BITS - 1)) - 1)) | (int64_t)(exponent > 0) << (DOUBLE_BITS - 1);
    *e = (exponent > 0 ? exponent : 1) - 1075;
    return bits < 0 ? -m : m;
}

/* Add m 2^place, in units of the lowest bit (2^LOWEST); m 2^place covers up to three limbs. */
static void add_at(struct exact *sum, int64_t m, int place) {
    bool negative = m < 0;
    unsigned __int128 x = (unsigned __int128)(negative ? -m : m) << place % LIMB_BITS;
    for (int i = place / LIMB_BITS; x; i++, x >>= LIMB_BITS) {
        int64_t part = (int64_t)(x & LIMB_MASK);
        sum->limb[i] += negative ? -part : part;
    }
    if (++sum->n_added < MOST_ADDED) return;
    carry(sum->limb);
    sum->n_added = 0;
}

void exact_add(struct exact *sum, double x) {
    int e = 0;
    if (x == 0) return;
    int64_t m = isfinite(x) ? take_apart(x, &e) : 0;
    for (; e < LOWEST && m % 2 == 0 && m; e++) m /= 2;
    if (!isfinite(x)) sum->special += x;
    else if (e < LOWEST || e - LOWEST >= LIMB_BITS * (EXACT_LIMBS - 2)) sum->special += NAN;
    else add_at(sum, m, e - LOWEST);
}

static void merge(struct exact *sum, const struct exact *part) {
    for (int i = 0; i < EXACT_LIMBS; i++) sum->limb[i] += part->limb[i];
    carry(sum->limb);
    sum->n_added = 0;
    sum->special += part->special;
}

void exact_add_squares(struct exact *sum, const float *x, int64_t n) {
#pragma omp parallel if (n > ALONE)
    {
        struct exact part = {.n_added = 0};
#pragma omp for
        for (int64_t i = 0; i < n; i++) exact_add(&part, (double)x[i] * (double)x[i]);
        carry(part.limb);
#pragma omp critical
        merge(sum, &part);
    }
}

void exact_numbers(const struct exact *sum, double numbers[EXACT_NUMBERS]) {
    int64_t limb[EXACT_LIMBS];
    memcpy(limb, sum->limb, sizeof limb);
    carry(limb);
    for (int i = 0; i < EXACT_LIMBS; i++) numbers[i] = (double)limb[i];
    numbers[EXACT_LIMBS] = sum->special;
}

/* x holds the top three limbs from the highest nonzero limb down, more bits than a double has. Its lowest bit is also
 * set if a lower limb is not zero, so that the conversion of x rounds the whole sum to nearest. */
static double round_limbs(const int64_t limb[EXACT_LIMBS]) {
    int top = EXACT_LIMBS - 1;
    while (top > 2 && limb[top] == 0) top--;
    unsigned __int128 x = 0;
    for (int i = top; i > top - 3; i--) x = x << LIMB_BITS | (unsigned __int128)limb[i];
    for (int i = 0; i < top - 2; i++) x |= limb[i] != 0;
    return ldexp((double)x, LIMB_BITS * (top - 2) + LOWEST);
}

double exact_value(const double numbers[EXACT_NUMBERS]) {
    int64_t limb[EXACT_LIMBS];
    if (numbers[EXACT_LIMBS] != 0) return numbers[EXACT_LIMBS];
    for (int i = 0; i < EXACT_LIMBS; i++) limb[i] = (int64_t)numbers[i];
    carry(limb);
    bool negative = limb[EXACT_LIMBS - 1] < 0;
    for (int i = 0; negative && i < EXACT_LIMBS; i++) limb[i] = -limb[i];
    carry(limb);
    return negative ? -round_limbs(limb) : round_limbs(limb);
}
