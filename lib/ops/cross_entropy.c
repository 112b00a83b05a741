#include "lib/ops/cross_entropy.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/shapes.h"

static enum status cross_entropy_shape(const struct call *call, struct type out[MAX_OUT]) {
    const struct type *logits = call->in[0].type, *targets = call->in[1].type;
    TRY(shape_expect_tags(call, 0, "BTV"));
    TRY(shape_expect_tags(call, 1, "BT"));
    const struct axis *vocab = &logits->shape.axis[2];
    if (targets->dtype != INT32) return shape_refuse(call, "targets must be int32");
    for (int i = 0; i < 2; i++)
        if (!axis_same(&logits->shape.axis[i], &targets->shape.axis[i]))
            return shape_refuse(call, "logits and targets differ");
    if (vocab->first != 0 || vocab->n < vocab->global)
        return shape_refuse(call, "the vocabulary is sharded; use the vocabulary-parallel loss");
    out[0].dtype = out[1].dtype = dtype_accumulator(logits->dtype);
    out[0].shape.n_axes = 1;
    out[0].shape.axis[0] = axis_whole('1', 1);
    out[1].shape = targets->shape;
    return OK;
}

/* Scratch. CPU: sum[r] and hit[r]; out[1] keeps the maximum until lse replaces it. CUDA: each row's loss, in double.
 * A plan calls this with training = false, so that forward's scratch is there for evaluation. */
static int64_t cross_entropy_work(const struct call *call, enum row_kind kind) {
    bool nothing_to_do = call->training && (kind == ROW_FORWARD || kind == ROW_REPLAY);
    size_t accumulator = dtype_size(dtype_accumulator(op_dtype(call)));
    size_t row_bytes = call->on == DEVICE_CUDA ? sizeof(double) : 2 * accumulator;
    return nothing_to_do ? 0 : type_n(call->in[1].type) * (int64_t)row_bytes;
}

/* The cost in training, where forward does nothing. */
static struct cost cross_entropy_cost(const struct call *call, enum row_kind kind) {
    return kind == ROW_BACKWARD_INPUT ? cost_traffic(call, kind) : (struct cost){0};
}

enum status cross_entropy_check_targets(const struct vocab_rows *rows) {
    for (int64_t r = 0; r < rows->n_rows; r++)
        if (rows->target[r] >= rows->vocab.global)
            return FAIL(E_DATA, "target %d at position %lld is beyond the vocabulary of %lld", (int)rows->target[r],
                        (long long)r, (long long)rows->vocab.global);
    return OK;
}

DECLARE_KERNELS_FB(cross_entropy, cpu);
DECLARE_KERNELS_FB(cross_entropy, cuda);

const struct op op_cross_entropy = {
    .name = "cross_entropy",
    .typing = TYPING_LOSS,
    .mixes = "V",
    .shape = cross_entropy_shape,
    .needs = {.bi_in = IN(0) | IN(1), .bi_out = OUT(0) | OUT(1)},
    .no_grad_in = IN(1),
    .no_grad_out = OUT(0) | OUT(1),
    .out_name = {[1] = "stat"},
    .statistic_out = OUT(1),
    .backward_over_in = true,
    .has_backward_input = true,
    .all_in_backward = true,
    .work = cross_entropy_work,
    .cost = cross_entropy_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FB(cross_entropy, cpu),
                WITH_CUDA([DEVICE_CUDA] = KERNELS_FB(cross_entropy, cuda))},
};

#define PIECES(device) \
    extern const struct cross_entropy_pieces cross_entropy_pieces_##device##_fp64, \
        cross_entropy_pieces_##device##_fp32, cross_entropy_pieces_##device##_bf16, \
        cross_entropy_pieces_##device##_fp16
PIECES(cpu);
PIECES(cuda);

#define PIECES_OF(device) \
    { \
        [FP64] = &cross_entropy_pieces_##device##_fp64, [FP32] = &cross_entropy_pieces_##device##_fp32, \
        [BF16] = &cross_entropy_pieces_##device##_bf16, [FP16] = &cross_entropy_pieces_##device##_fp16 \
    }

const struct cross_entropy_pieces *cross_entropy_pieces(enum device_kind device, enum dtype dtype) {
    static const struct cross_entropy_pieces *const pieces[N_DEVICES][N_DTYPES] = {
        [DEVICE_CPU] = PIECES_OF(cpu), WITH_CUDA([DEVICE_CUDA] = PIECES_OF(cuda))};
    return pieces[device][dtype];
}
