/* Run one op in a test. An `op_case` owns every operand of one step. Operands are filled from *global* indices, so that
 * the operands of a shard's case are slices of the whole case's. A test file writes one maker per op, for any dtype:
 *
 *   static void make(struct op_case *c, enum dtype dtype) {
 *       op_case_start(c, &op_gelu, 1);
 *       op_case_input(c, op_type(dtype, "BTC", 2, 7, 5));
 *       op_case_finish(c);
 *   }
 *
 * and passes it to the checks below. An operand that the op does not declare in `needs` is NULL, as in a run. */
#pragma once

#include "lib/base/rng.h"
#include "lib/ops/op.h"
#include "tests/test.h"

struct op_case {
    struct step step;
    struct call settings;                /* a call without its operands: seed, training, scales */
    int32_t n_tokens;                    /* int32 inputs are uniform in [0, n_tokens) */
    double din_scale;                    /* op_case_check_siblings: din's error is relative to max|din|, or to din_scale
                                          * if that is larger, for a din that nearly cancels */
    struct type in_type[MAX_IN], out_type[MAX_OUT], weight_type[MAX_WEIGHTS], dweight_type[MAX_WEIGHTS];
    struct tensor in[MAX_IN], out[MAX_OUT], weight[MAX_WEIGHTS], din[MAX_IN], dout[MAX_OUT], dweight[MAX_WEIGHTS];
};
typedef void op_case_maker(struct op_case *, enum dtype);

/** A type with whole axes: op_type(FP32, "BTC", 2, 7, 5). */
struct type op_type(enum dtype, const char *tags, ...);
/** The type with axis `tag` cut to n elements from `first`. */
struct type op_type_part(struct type, char tag, int64_t first, int64_t n);

void op_case_start(struct op_case *, const struct op *, int n_out);
void op_case_input(struct op_case *, struct type);
void op_case_weight(struct op_case *, struct type);
/** Infer output types, allocate and fill. dweight starts at zero, din and out as NaN. */
void op_case_finish(struct op_case *);
void op_case_free(struct op_case *);

/** Run a row on test_device(). Its operands are in host memory; they are copied to the device and back. Operands with
 *  one address on the host have one address on the device. */
enum status op_case_run_call(struct call *, enum row_kind);

/** The call of a row: the operands that the op declares, NULL for others; no scratch. */
struct call op_case_call(const struct op_case *, enum row_kind);
/** Run one row. Asserts success, and that scratch was touched to its last byte. */
void op_case_run(struct op_case *, enum row_kind);
/** As op_case_run, on another device. */
void op_case_run_on(struct op_case *, enum row_kind, const struct device *);
/** Run forward, and backward_input and backward_weight if the op has them. */
void op_case_run_all(struct op_case *);

/** Check the gradients of all inputs and weights against central differences in fp64, and accumulation into din and
 *  dweight. */
void op_case_check_gradients(op_case_maker *);
/** Check the op in a dtype against itself in fp64 on the same (rounded) operands, by tensor_error of each result. n:
 *  the longest sum in the op. stored: the number of rounded results of forward that backward reads. */
void op_case_check_precision(op_case_maker *, enum dtype, double n, int stored);
/** The same for all three narrower dtypes. */
void op_case_check_precisions(op_case_maker *, double n, int stored);
/** Check that the bits stay the same if out[0] overwrites in[0], and din overwrites dout, as far as the op allows
 *  it. */
void op_case_check_aliases(op_case_maker *);

/** Check the op on the CPU against the op on test_device(), on the same operands: forward, both backwards, and both
 *  again with accumulation. Each dtype that has kernels on the device; weights' gradients in the weight's dtype and in
 *  the accumulator's. Results start as NaN, so an unwritten element shows. Masks and other integers must be equal.
 *  n and stored as above. On the CPU the op is compared with itself, which tests only the maker. */
void op_case_check_siblings(op_case_maker *, double n, int stored);

/** Check that one thread and three give the same bits. */
void op_case_check_threads(op_case_maker *);

/** Check a step that stores its dropout mask against one that draws again: the same bits in every precision. Also check
 * that backward reads the stored mask. */
void op_case_check_stored_masks(op_case_maker *store, op_case_maker *redraw);

/** Unit roundoff of a dtype: 2^-53, 2^-24, 2^-8 (bf16), 2^-11 (fp16). */
double dtype_roundoff(enum dtype);
/** Bound on the error of a sum of n terms in a dtype, see test_op_checks.c. */
double op_error_bound(enum dtype, double n, int stored);

/** A tensor in new memory, full of NaN. Free it by its data. */
struct tensor tensor_new(const struct type *);
/** max|value - reference| / max|reference|. A shard is compared with its own elements of the reference. */
double tensor_error(const struct tensor *value, const struct tensor *reference);
/** Copy values, converted to the dtype of `to`; both have the same number of elements. */
void tensor_copy_values(const struct tensor *to, const struct tensor *from);
/** x -= y */
void tensor_subtract(const struct tensor *x, const struct tensor *y);
