/* Linear layers in fp8: each operand of a product is multiplied by its scale s and cast to 8 bits.
 *
 *   code(x) = fp8(s_x x)         E4M3 for x and W; E5M2 for dy, because gradients need range more than digits
 *   y  = code(x) code(W)^T / (s_x s_W) + b
 *   dx = code(dy) code(W) / (s_dy s_W)          dW += code(dy)^T code(x) / (s_dy s_x)          db += sum of dy
 *
 * A layer is two ops. cast_fp8 makes the codes of x, one byte per number, which are kept for backward. linear_fp8 reads
 * them, and casts W and dy into its own scratch. A product of two codes has 8 significant bits, so it is exact in the
 * accumulator. y, dx and dW are rounded once, to the model's dtype. No gradient is kept in fp8: the gradient of code(x)
 * is dx in the model's dtype, and cast_fp8's backward returns it unchanged.
 *
 * mixed_precision/fp8.c chooses the scales. In training each cast also raises amax[number of the tensor] to the largest
 * magnitude that it reads; a NaN counts as infinity. A replay reads the same numbers, so it changes no amax.
 *
 * By blocks (block.h) the scales are of 16 or 32 numbers in a row, along the axis that the product sums, as
 * tensor cores need. So each operand is cast twice, once for each of its two products:
 *
 *   y  = x W^T     sums over N inputs: blocks of x and W along N
 *   dx = dy W      sums over K outputs: blocks of dy and W along K
 *   dW = dy^T x    sums over tokens: blocks of dy and x along the tokens of a sample
 *
 * cast_blocks makes the codes of x for dW, with their scales; they are kept for backward, and x is not. linear_blocks
 * casts the other five into scratch. In NVFP4 a scale of W is of 16 x 16 numbers, so y and dx have the same codes of W.
 * With `hadamard` x and dy are multiplied by block_mix's matrix for dW, along 16 tokens, and neither is changed for y
 * and dx. Forward and backward of NVFP4 share the scale of the tensor, fp8_scale.
 *
 * The block size must divide the tokens of a sample, the inputs and the outputs that a rank holds in a row. Then no
 * block has numbers of two ranks, samples or microbatches, and every layout has the same blocks. All else is refused.
 *
 * Source: Micikevicius et al. 2022, "FP8 formats for deep learning"; block.h for blocks. */
#pragma once

#include "lib/ops/op.h"

/** in[0] x   out[0] code(x), of the same shape */
extern const struct op op_cast_fp8;
/** in[0] code(x)   out[0] y   weight[0] W   weight[1] b, optional. Axes as in linear.h */
extern const struct op op_linear_fp8;

/** in[0] x (B,T,...)   out[0] codes of x, blocks along T   out[1] their scales, (B,T/size,...). Both are opaque: blocks
 *  lie one after the other, (B,N,T) */
extern const struct op op_cast_blocks;
/** in[0] x, in[1] and in[2] its codes and scales   out[0] y   weight[0] W   weight[1] b, optional */
extern const struct op op_linear_blocks;

/* The tensors of one layer, in the order of their numbers (struct fp8_rule). */
enum fp8_tensor { FP8_X, FP8_W, FP8_DY, N_FP8_TENSORS };

static inline double fp8_scale(const struct call *call, enum fp8_tensor t) {
    return call->step->fp8.scale[call->step->fp8.first + (int)t];
}

/* Scratch of linear_fp8: first the product's own, then at offsets a and b its two operands. On the CPU these are codes
 * widened to the product's dtype. On CUDA they are codes in the layout of tensor cores; forward reads its a from x. */
struct fp8_work { int64_t a, b, bytes; };
struct fp8_work fp8_work(const struct call *, enum row_kind);

/** The same of linear_blocks. */
struct fp8_work blocks_work(const struct call *, enum row_kind);

/* Raise amax of a tensor by n elements, in training; compiled for each element type (fp8_cpu.c). */
typedef void fp8_amax_kernel(const struct call *, enum fp8_tensor, const void *x, int64_t n);

/** Can the device multiply in fp8? The CPU emulates it. @errors E_CONFIG naming the GPU */
enum status fp8_supported(const struct device *);
