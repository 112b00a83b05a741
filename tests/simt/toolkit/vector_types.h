/* CUDA's short vectors and dim3, for machines without a toolkit: the same sizes and alignments as NVIDIA's
 * vector_types.h. */
#pragma once

#define TOOLKIT_VECTORS(type, name, bytes)                                                                             \
    struct name##1 { type x; };                                                                                        \
    struct __attribute__((aligned(2 * bytes))) name##2 { type x, y; };                                                 \
    struct name##3 { type x, y, z; };                                                                                  \
    struct __attribute__((aligned(4 * bytes > 16 ? 16 : 4 * bytes))) name##4 { type x, y, z, w; };                     \
    typedef struct name##1 name##1;                                                                                    \
    typedef struct name##2 name##2;                                                                                    \
    typedef struct name##3 name##3;                                                                                    \
    typedef struct name##4 name##4;
TOOLKIT_VECTORS(signed char, char, 1)
TOOLKIT_VECTORS(unsigned char, uchar, 1)
TOOLKIT_VECTORS(short, short, 2)
TOOLKIT_VECTORS(unsigned short, ushort, 2)
TOOLKIT_VECTORS(int, int, 4)
TOOLKIT_VECTORS(unsigned, uint, 4)
TOOLKIT_VECTORS(long long, longlong, 8)
TOOLKIT_VECTORS(unsigned long long, ulonglong, 8)
TOOLKIT_VECTORS(float, float, 4)
TOOLKIT_VECTORS(double, double, 8)

struct dim3 {
    unsigned x, y, z;
#ifdef __cplusplus
    constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
#endif
};
typedef struct dim3 dim3;
