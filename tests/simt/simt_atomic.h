/* Atomics: one OS thread runs everything, so an operation that is not interrupted by a barrier is atomic. For the
 * race check atomics do not race with one another, but do with plain accesses. Each returns the old value. */
#pragma once

#ifdef SIMT_CHECK
/* Tell the checker of an atomic access of `bytes` bytes; code: the instruction after it. */
extern "C" void simt_check_atomic(const void *at, size_t bytes, const void *code);
#define SIMT_ATOMIC_CHECK(at) simt_check_atomic((at), sizeof *(at), __builtin_return_address(0))
#else
#define SIMT_ATOMIC_CHECK(at) (void)0
#endif

/* The types are those that CUDA has; anything else must not compile. */
#define SIMT_ATOMIC(name, type, result)                                                                                \
    SIMT_MACHINE inline type name(type *at, type value) {                                                              \
        SIMT_ATOMIC_CHECK(at);                                                                                         \
        type old = *at;                                                                                                \
        *at = (result);                                                                                                \
        return old;                                                                                                    \
    }
#define SIMT_ATOMIC_INTEGERS(name, result)                                                                             \
    SIMT_ATOMIC(name, int, result)                                                                                     \
    SIMT_ATOMIC(name, unsigned, result)                                                                                \
    SIMT_ATOMIC(name, unsigned long long, result)

SIMT_ATOMIC_INTEGERS(atomicAdd, old + value)
SIMT_ATOMIC(atomicAdd, float, old + value)
SIMT_ATOMIC(atomicAdd, double, old + value)
SIMT_ATOMIC(atomicSub, int, old - value)
SIMT_ATOMIC(atomicSub, unsigned, old - value)
SIMT_ATOMIC_INTEGERS(atomicMax, old > value ? old : value)
SIMT_ATOMIC(atomicMax, long long, old > value ? old : value)
SIMT_ATOMIC_INTEGERS(atomicMin, old < value ? old : value)
SIMT_ATOMIC(atomicMin, long long, old < value ? old : value)
SIMT_ATOMIC_INTEGERS(atomicAnd, old & value)
SIMT_ATOMIC_INTEGERS(atomicOr, old | value)
SIMT_ATOMIC_INTEGERS(atomicXor, old ^ value)
SIMT_ATOMIC_INTEGERS(atomicExch, value)
SIMT_ATOMIC(atomicExch, float, value)
SIMT_ATOMIC(atomicInc, unsigned, old >= value ? 0 : old + 1)
SIMT_ATOMIC(atomicDec, unsigned, old == 0 || old > value ? value : old - 1)

#define SIMT_ATOMIC_CAS(type)                                                                                          \
    SIMT_MACHINE inline type atomicCAS(type *at, type expected, type value) {                                          \
        SIMT_ATOMIC_CHECK(at);                                                                                         \
        type old = *at;                                                                                                \
        *at = old == expected ? value : old;                                                                           \
        return old;                                                                                                    \
    }
SIMT_ATOMIC_CAS(int)
SIMT_ATOMIC_CAS(unsigned)
SIMT_ATOMIC_CAS(unsigned long long)
SIMT_ATOMIC_CAS(unsigned short)
