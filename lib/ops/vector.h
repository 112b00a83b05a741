/* The vector registers of the machine that is compiled for. Loops that keep sums in registers size their blocks by
 * them: sums that no register is left for lie on the stack, at a quarter of the speed or less. Longer vectors are
 * split. */
#pragma once

#if defined __AVX512F__
#define VECTOR_BYTES 64
#define VECTOR_REGISTERS 32
#elif defined __AVX__
#define VECTOR_BYTES 32
#define VECTOR_REGISTERS 16
#elif defined __aarch64__
#define VECTOR_BYTES 16
#define VECTOR_REGISTERS 32
#else
#define VECTOR_BYTES 16
#define VECTOR_REGISTERS 16
#endif
