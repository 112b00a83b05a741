/* The vector registers of the target machine. Loops that keep sums in registers size their blocks by these numbers,
 * because a sum without a register is kept on the stack, at a quarter of the speed or less. The compiler splits longer
 * vectors. */
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
