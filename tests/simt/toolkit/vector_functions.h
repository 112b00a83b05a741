/* make_float4(x, y, z, w) and the like. */
#pragma once

#include "vector_types.h"

#define TOOLKIT_MAKE(type, name) \
    static inline struct name##1 make_##name##1(type x) { \
        struct name##1 v = {x}; \
        return v; \
    } \
    static inline struct name##2 make_##name##2(type x, type y) { \
        struct name##2 v = {x, y}; \
        return v; \
    } \
    static inline struct name##3 make_##name##3(type x, type y, type z) { \
        struct name##3 v = {x, y, z}; \
        return v; \
    } \
    static inline struct name##4 make_##name##4(type x, type y, type z, type w) { \
        struct name##4 v = {x, y, z, w}; \
        return v; \
    }
TOOLKIT_MAKE(signed char, char)
TOOLKIT_MAKE(unsigned char, uchar)
TOOLKIT_MAKE(short, short)
TOOLKIT_MAKE(unsigned short, ushort)
TOOLKIT_MAKE(int, int)
TOOLKIT_MAKE(unsigned, uint)
TOOLKIT_MAKE(long long, longlong)
TOOLKIT_MAKE(unsigned long long, ulonglong)
TOOLKIT_MAKE(float, float)
TOOLKIT_MAKE(double, double)
