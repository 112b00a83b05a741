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
 * Source: Micikevicius et al. 2022, "FP8 formats for deep learning". */
#pragma once

#include "lib/ops/op.h"

/** in[0] x   out[0] code(x), of the same shape */
extern const struct op op_cast_fp8;
/** in[0] code(x)   out[0] y   weight[0] W   weight[1] b, optional. Axes as in linear.h */
extern const struct op op_linear_fp8;

/* The tensors of one layer, in the order of their numbers (struct fp8_rule). */
enum fp8_tensor { FP8_X, FP8_W, FP8_DY, N_FP8_TENSORS };

static inline double fp8_scale(const struct call *call, enum fp8_tensor t) {
    return call->step->fp8.scale[call->step->fp8.first + (int)t];
}

/* Scratch of linear_fp8: first the product's own, then at offsets a and b its two operands. On the CPU these are codes
 * widened to the product's dtype. On CUDA they are codes in the layout of tensor cores; forward reads its a from x. */
struct fp8_work { int64_t a, b, bytes; };
struct fp8_work fp8_work(const struct call *, enum row_kind);

/** Can the device multiply in fp8? The CPU emulates it. @errors E_CONFIG naming the GPU */
enum status fp8_supported(const struct device *);
