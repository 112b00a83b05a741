/* Counter-based random numbers: a number is a pure function of (key, counter), so it does not depend on which rank
 * draws it, when, or in which order. Initial weights, dropout and shuffling use *global* indices as counters; that is
 * why every layout sees the same numbers (docs/architecture.md, "Same numbers in every layout").
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011 (Philox-4x32-10). */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels draw random numbers too, so nvcc compiles philox for the host and for the device. */
#ifdef __CUDACC__
#define RNG_INLINE __host__ __device__ static inline
#else
#define RNG_INLINE static inline
#endif

struct philox_counter { uint32_t v[4]; };
struct philox_key { uint32_t v[2]; };

/** One Philox-4x32-10 block: four uniform 32-bit words. Inline, so that loops over blocks vectorize. */
RNG_INLINE struct philox_counter philox(struct philox_counter c, struct philox_key k) {
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c.v[0], b = (uint64_t)0xCD9E8D57u * c.v[2];
        struct philox_counter next = {{(uint32_t)(b >> 32) ^ c.v[1] ^ k.v[0], (uint32_t)b,
                                       (uint32_t)(a >> 32) ^ c.v[3] ^ k.v[1], (uint32_t)a}};
        c = next;
        k.v[0] += 0x9E3779B9u;
        k.v[1] += 0xBB67AE85u;
    }
    return c;
}

/** The stream number of a name (of a parameter or a dropout site): 64-bit FNV-1a of the text. */
uint64_t rng_stream(const char *name);

/** The Philox key for (seed, stream, step). A change of any of the three gives unrelated numbers. */
struct philox_key rng_key(uint64_t seed, uint64_t stream, uint64_t step);

/** Uniform in (0, 1), with 32 bits; element is any 64-bit index. */
double rng_uniform(uint64_t seed, uint64_t stream, uint64_t element);

/** Standard normal by Box-Muller over two 32-bit words of the element's block. */
double rng_normal(uint64_t seed, uint64_t stream, uint64_t element);

/** The image of i under a random permutation of [0, n), keyed by (seed, stream, step). A cycle-walking Feistel network
 *  over the next power of 4 takes O(1) memory, so that an epoch's order needs no table. n >= 1, 0 <= i < n. */
uint64_t rng_permute(uint64_t seed, uint64_t stream, uint64_t step, uint64_t n, uint64_t i);

#ifdef __cplusplus
}
#endif
