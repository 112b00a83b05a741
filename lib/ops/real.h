/* One source, four element types: the Makefile compiles every *_cpu.c once for each of ELEM = fp64, fp32, bf16, fp16.
 *
 *   elem      the type in memory
 *   real      the type of arithmetic: double for fp64, else float
 *   load(x)   elem -> real        store(x)   real -> elem, rounded once
 *   CPU(f)    the name f gets in this compilation: f_cpu_fp32, ...
 *
 * Only *_cpu.c files include this header. */
#pragma once

#include "lib/device/dtype.h"

#define CPU_PASTE(function, elem) function##_cpu_##elem
#define CPU_EXPAND(function, elem) CPU_PASTE(function, elem)
#define CPU(function) CPU_EXPAND(function, ELEM)

#if defined ELEM_fp64
typedef double elem, real;
#define ELEM_DTYPE FP64
#define REAL_DTYPE FP64
static inline real load(elem x) { return x; }
static inline elem store(real x) { return x; }
#elif defined ELEM_fp32
typedef float elem, real;
#define ELEM_DTYPE FP32
#define REAL_DTYPE FP32
static inline real load(elem x) { return x; }
static inline elem store(real x) { return x; }
#elif defined ELEM_bf16
typedef uint16_t elem;
typedef float real;
#define ELEM_DTYPE BF16
#define REAL_DTYPE FP32
static inline real load(elem x) { return bf16_to_float(x); }
static inline elem store(real x) { return bf16_from_float(x); }
#elif defined ELEM_fp16
typedef uint16_t elem;
typedef float real;
#define ELEM_DTYPE FP16
#define REAL_DTYPE FP32
static inline real load(elem x) { return fp16_to_float(x); }
static inline elem store(real x) { return fp16_from_float(x); }
#else
#error "compile with -DELEM=fp32 -DELEM_fp32 (or fp64, bf16, fp16)"
#endif
