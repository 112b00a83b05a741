/* Running one op in a test: an `op_case` owns every operand of one step, filled from *global* indices, so that a case
 * over a shard holds the slices of the case over the whole. A test file writes one builder per op, for any dtype:
 *
 *   static void make(struct op_case *c, enum dtype dtype) {
 *       op_case_start(c, &op_gelu, 1);
 *       op_case_input(c, op_type(dtype, "BTC", 2, 7, 5));
 *       op_case_finish(c);
 *   }
 *
 * and hands it to the checks below. What an op did not declare in `needs` arrives as NULL, as in a run. */
#pragma once

#include "lib/base/rng.h"
#include "lib/ops/op.h"
#include "tests/test.h"

struct op_case {
    struct step step;
    struct call settings;                /* everything in a call that is no operand: seed, training, scales */
    int32_t n_tokens;                    /* int32 inputs are uniform in [0, n_tokens) */
    double din_scale; /* op_case_check_siblings: din is compared relative to at least this, where it may be
                                          * a difference of nearly equal numbers. 0: relative to itself */
    struct type in_type[MAX_IN], out_type[MAX_OUT], weight_type[MAX_WEIGHTS], dweight_type[MAX_WEIGHTS];
    struct tensor in[MAX_IN], out[MAX_OUT], weight[MAX_WEIGHTS], din[MAX_IN], dout[MAX_OUT], dweight[MAX_WEIGHTS];
};
typedef void op_case_maker(struct op_case *, enum dtype);

/** A type with whole axes: op_type(FP32, "BTC", 2, 7, 5). */
struct type op_type(enum dtype, const char *tags, ...);
/** The same with axis `tag` cut down to n elements from `first`. */
struct type op_type_part(struct type, char tag, int64_t first, int64_t n);

void op_case_start(struct op_case *, const struct op *, int n_out);
void op_case_input(struct op_case *, struct type);
void op_case_weight(struct op_case *, struct type);
/** Infer output types, allocate and fill. dweight starts at zero, din and out as NaN. */
void op_case_finish(struct op_case *);
void op_case_free(struct op_case *);

/** Run a row on the device that the tests are for (test_device): its operands, which are in host memory, are copied
 *  there and back; operands at one address stay at one address. */
enum status op_case_run_call(struct call *, enum row_kind);

/** The call of a row: what the op declared, and NULL for the rest; no scratch. */
struct call op_case_call(const struct op_case *, enum row_kind);
/** Run one row. Asserts success, and that scratch was touched to its last byte. */
void op_case_run(struct op_case *, enum row_kind);
/** The same on a device of the caller's choice. */
void op_case_run_on(struct op_case *, enum row_kind, const struct device *);
/** Forward and both backwards, as far as the op has them. */
void op_case_run_all(struct op_case *);

/** Gradients of all inputs and weights against central differences in fp64, and accumulation into din and dweight. */
void op_case_check_gradients(op_case_maker *);
/** The op in a dtype against itself in fp64 on the same (rounded) operands; error max|difference| / max|reference| of
 * each result. n is the longest sum in the op; `stored` says how many rounded results of forward backward reads. */
void op_case_check_precision(op_case_maker *, enum dtype, double n, int stored);
/** All three narrower dtypes. */
void op_case_check_precisions(op_case_maker *, double n, int stored);
/** The same bits when out[0] lies over in[0] and din over dout, where the op says they may. */
void op_case_check_aliases(op_case_maker *);

/** The op on the CPU against the op on test_device(), on the same operands: forward, both backwards, and both on top of
 *  what is there; in each dtype for which the device has kernels; weights' gradients in the weight's dtype and in the
 *  accumulator's. Results start as NaN, so an unwritten element shows. Masks and other integers must be equal.
 *  n and stored as above. On the CPU it compares the op with itself, which says only that the maker is sound. */
void op_case_check_siblings(op_case_maker *, double n, int stored);

/** The same bits on one thread and on three. */
void op_case_check_threads(op_case_maker *);

/** A step that stores what dropout drew against one that draws it again: the same bits, in every precision; and
 * backward does read what was stored. */
void op_case_check_stored_masks(op_case_maker *store, op_case_maker *redraw);

/** Unit roundoff of a dtype: 2^-53, 2^-24, 2^-8 (bf16), 2^-11 (fp16). */
double dtype_roundoff(enum dtype);
/** Bound on the error of a sum of n terms in a dtype, see test_op_checks.c. */
double op_error_bound(enum dtype, double n, int stored);

/** Memory of its own, to be freed through data; full of NaN. */
struct tensor tensor_new(const struct type *);
/** max|value - reference| / max|reference|; where value is a shard, against the elements that it holds. */
double tensor_error(const struct tensor *value, const struct tensor *reference);
/** Values converted to to's dtype; the same number of elements. */
void tensor_copy_values(const struct tensor *to, const struct tensor *from);
/** x -= y */
void tensor_subtract(const struct tensor *x, const struct tensor *y);
