/* Names give streams, streams give keys, and keys give numbers. These functions have no state. */
#include "lib/base/rng.h"

#include <math.h>

uint64_t rng_stream(const char *name) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash;
}

/* A bijection of 64 bits in which every input bit moves about half of the output bits.
 * Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (SplitMix64). */
static uint64_t mix(uint64_t x) {
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* mix is a bijection, so two keys that differ in exactly one of the three arguments are never equal. */
static uint64_t mixed_key(uint64_t seed, uint64_t stream, uint64_t step) {
    return mix(mix(mix(seed) ^ stream) ^ step);
}

struct philox_key rng_key(uint64_t seed, uint64_t stream, uint64_t step) {
    uint64_t key = mixed_key(seed, stream, step);
    return (struct philox_key){{(uint32_t)key, (uint32_t)(key >> 32)}};
}

static struct philox_counter element_block(uint64_t seed, uint64_t stream, uint64_t element) {
    struct philox_counter counter = {{(uint32_t)element, (uint32_t)(element >> 32), 0, 0}};
    return philox(counter, rng_key(seed, stream, 0));
}

/* The center of the word's interval of length 2^-32: never 0, because rng_normal takes its logarithm, and never 1. */
static double unit(uint32_t word) {
    return (word + 0.5) * 0x1p-32;
}

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t element) {
    return unit(element_block(seed, stream, element).v[0]);
}

double rng_normal(uint64_t seed, uint64_t stream, uint64_t element) {
    struct philox_counter block = element_block(seed, stream, element); /* rng_uniform uses word 0 */
    double radius = sqrt(-2 * log(unit(block.v[1])));
    return radius * cos(6.283185307179586476925 * unit(block.v[2]));
}

/* A Feistel round maps (left, right) to (right, left ^ f(right)), which is a bijection for every f. */
static uint64_t feistel(uint64_t key, int half_bits, uint64_t x) {
    uint64_t mask = (UINT64_C(1) << half_bits) - 1, left = x >> half_bits, right = x & mask;
    for (uint64_t round = 0; round < 8; round++) {
        uint64_t next = left ^ (mix(mix(key ^ round) ^ right) & mask);
        left = right;
        right = next;
    }
    return left << half_bits | right;
}

uint64_t rng_permute(uint64_t seed, uint64_t stream, uint64_t step, uint64_t n, uint64_t i) {
    int half_bits = 1;
    while (half_bits < 32 && (UINT64_C(1) << 2 * half_bits) < n) half_bits++;
    /* The network permutes [0, 4^half_bits), which has at most 4n elements. Applying it to i until the result is below
     * n permutes [0, n), and takes at most four applications on average. */
    uint64_t key = mixed_key(seed, stream, step);
    do i = feistel(key, half_bits, i);
    while (i >= n);
    return i;
}
