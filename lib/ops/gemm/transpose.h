/* A square of numbers transposed in registers.
 *
 * Idea: N vectors of N numbers. log2 N times, vectors i and i + N/2 are interleaved, number by number, into vectors 2i
 * and 2i + 1. This is a perfect shuffle of all N^2 numbers: the highest bit of a number's column becomes the lowest of
 * its row, and the highest of its row the lowest of its column. After log2 N times rows and columns have changed
 * places. This takes N/2 log2 N pairs of shuffles, where copying one by one takes N^2 loads and stores. */
#pragma once

/** Defines `static void name(vec x[N])`. vec: a gcc vector of N numbers; index: one of N integers of the same width. */
#define DEFINE_TRANSPOSE(name, vec, index, N) \
    static inline __attribute__((always_inline)) void name(vec x[N]) { \
        index low, high; \
        vec y[N]; \
        _Pragma("GCC unroll 16") for (int l = 0; l < (N); l++) low[l] = l / 2 + l % 2 * (N), \
                                                               high[l] = low[l] + (N) / 2; \
        _Pragma("GCC unroll 4") for (int stage = 1; stage < (N); stage *= 2) { \
            _Pragma("GCC unroll 8") for (int i = 0; i < (N) / 2; i++) { \
                y[2 * i] = __builtin_shuffle(x[i], x[i + (N) / 2], low); \
                y[2 * i + 1] = __builtin_shuffle(x[i], x[i + (N) / 2], high); \
            } \
            _Pragma("GCC unroll 16") for (int i = 0; i < (N); i++) x[i] = y[i]; \
        } \
    }
