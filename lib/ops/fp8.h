/* Linear layers in fp8: products of operands that are cast to 8 bits, each with a scale.
 *
 *   code(x) = fp8(s_x x)         E4M3 for x and W, E5M2 for dy: gradients need range more than digits
 *   y  = code(x) code(W)^T / (s_x s_W) + b
 *   dx = code(dy) code(W) / (s_dy s_W)          dW += code(dy)^T code(x) / (s_dy s_x)          db += sum of dy
 *
 * Two ops do it. cast_fp8 makes the codes of x, which are what backward keeps: one byte per number. linear_fp8 reads
 * them, and casts W and dy in its own scratch. Products of two codes have 8 significant bits, so they are exact in the
 * accumulator; y, dx and dW are rounded once, to the model's dtype. A gradient is never kept in fp8: that of code(x) is
 * dx, in the model's dtype, and cast_fp8 hands it on as it is.
 *
 * Where the scales come from is mixed_precision/fp8.c's affair. What an op casts while training it also looks at: the
 * largest magnitude goes to amax[number of the tensor], if it is larger than what is there; infinity stands for NaN.
 * Once more, from a replay, changes nothing.
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

/* Scratch of linear_fp8: the product's own, and from a and b on its two operands. On the CPU codes are widened to the
 * dtype that the product is computed in. On CUDA they are codes, lying as tensor cores read them; forward's a is x. */
struct fp8_work { int64_t a, b, bytes; };
struct fp8_work fp8_work(const struct call *, enum row_kind);

/** Can the device multiply in fp8? The CPU emulates it. @errors E_CONFIG naming the GPU */
enum status fp8_supported(const struct device *);
