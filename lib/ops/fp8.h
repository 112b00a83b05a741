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

#include "lib/base/rng.h"
#include "lib/ops/op.h"

#ifdef __cplusplus
extern "C" {
#endif

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
struct fp8_work { int64_t a, b, a_scale, b_scale, bytes; };
struct fp8_work fp8_work(const struct call *, enum row_kind);

/** The same of linear_blocks. On CUDA the scales of both operands follow, in tiles (block.h); dW reads its b, the codes
 *  of x, from in[1]. */
struct fp8_work blocks_work(const struct call *, enum row_kind);

/* The product that an operand of linear_blocks is cast for. dy is rounded by other draws for dx than for dW. */
enum block_product { FOR_Y, FOR_DX, FOR_DW };

/** Has the tensor itself a scale (NVFP4)? Pure, as those that follow. */
static inline bool blocks_have_levels(const struct call *call) {
    return call->step->blocks.operand.scale == BLOCK_SCALE_E4M3;
}
/** Are the operands of this product mixed by block_mix? */
static inline bool blocks_are_mixed(const struct call *call, enum block_product p) {
    return p == FOR_DW && call->step->blocks.hadamard;
}
/** With which signs? They are the same for x and dy, for all layers and steps. */
uint32_t blocks_signs(const struct call *);
/** The scale of a tensor for this product. What fp8_scale puts at the top is the largest number before it is mixed. */
double blocks_tensor_scale(const struct call *, enum fp8_tensor, enum block_product);
/** The factor that takes the scales of two tensors out of their product. */
double blocks_alpha(const struct call *, enum fp8_tensor a, enum fp8_tensor b, enum block_product);
/** The format of a tensor's blocks. */
static inline struct block_format blocks_format(const struct call *call, enum fp8_tensor t) {
    return t == FP8_DY ? call->step->blocks.gradient : call->step->blocks.operand;
}

/* Draws for dy are of (seed, weight, step) and (output, token, product, sample), all global. */
/** The place in the whole tensor of output k of this rank; y is (B,T,K...). */
DTYPE_FUNCTION uint32_t blocks_output_place(const struct shape *y, uint32_t k) {
    uint32_t place = 0, whole = 1;
    for (int i = y->n_axes - 1; i >= 2; i--) {
        const struct axis *a = &y->axis[i];
        uint32_t n = (uint32_t)a->n;
        place += whole * (uint32_t)axis_global(a, k % n);
        whole *= (uint32_t)a->global;
        k /= n;
    }
    return place;
}
/** The four words for dy's row r, outputs k .. k+3; 4 divides k. */
DTYPE_FUNCTION struct philox_counter blocks_draw_four(const struct shape *y, struct philox_key key,
                                                      int64_t first_sample, enum block_product p, uint32_t r,
                                                      uint32_t k) {
    uint32_t T = (uint32_t)y->axis[1].n;
    struct philox_counter c = {{blocks_output_place(y, k) / 4, (uint32_t)axis_global(&y->axis[1], r % T), (uint32_t)p,
                                (uint32_t)(first_sample + r / T)}};
    return philox(c, key);
}

/* Raise amax of a tensor by n elements, in training; compiled for each element type (fp8_cpu.c). */
typedef void fp8_amax_kernel(const struct call *, enum fp8_tensor, const void *x, int64_t n);

/** Can the device multiply in fp8? The CPU emulates it. @errors E_CONFIG naming the GPU */
enum status fp8_supported(const struct device *);
/** The same of products by blocks. recipe: its name, for the message  @errors E_CONFIG naming the GPU and both */
enum status blocks_supported(const struct device *, const char *recipe);

#ifdef __cplusplus
}
#endif
