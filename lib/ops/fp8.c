#include "lib/ops/fp8.h"

#include "lib/device/arena.h"
#include "lib/ops/cost.h"
#include "lib/ops/kernels.h"
#include "lib/ops/linear.h"
#include "lib/ops/shapes.h"

/* ---- cast_fp8 ---- */
static enum status cast_fp8_shape(const struct call *call, struct type out[MAX_OUT]) {
    out[0] = *call->in[0].type;
    out[0].dtype = FP8_E4M3;
    return OK;
}

/* Backward is branch's. It runs only if another step has already written a gradient of x; else dx is a view of dy
 * (ALIAS_VIEW). */
DECLARE_KERNEL(cast_fp8_forward, cpu);
DECLARE_KERNEL(cast_fp8_forward, cuda);
DECLARE_KERNEL(branch_backward_input, cpu);
DECLARE_KERNEL(branch_backward_input, cuda);
#define CAST_KERNELS(suffix) {cast_fp8_forward_##suffix, branch_backward_input_##suffix, 0}

const struct op op_cast_fp8 = {
    .name = "cast_fp8",
    .typing = TYPING_LOCAL,
    .rule = RULE_FP8,
    .shape = cast_fp8_shape,
    .backward_alias = ALIAS_VIEW,
    .has_backward_input = true,
    .cost = cost_traffic,
    .kernels = {[DEVICE_CPU] = {[FP64] = CAST_KERNELS(cpu_fp64), [FP32] = CAST_KERNELS(cpu_fp32),
                                [BF16] = CAST_KERNELS(cpu_bf16), [FP16] = CAST_KERNELS(cpu_fp16)},
                WITH_CUDA([DEVICE_CUDA] = {[FP32] = CAST_KERNELS(cuda_fp32), [BF16] = CAST_KERNELS(cuda_bf16)})},
};

/* ---- linear_fp8 ---- */
static enum status linear_fp8_shape(const struct call *call, struct type out[MAX_OUT]) {
    if (call->in[0].type->dtype != FP8_E4M3) return shape_refuse(call, "the input is not in E4M3");
    TRY(linear_infer(call, out));
    struct linear_sizes s = linear_sizes(call);
    if (call->on == DEVICE_CUDA && (s.R % 16 || s.K % 16 || s.N % 16))
        return shape_refuse(call, "tensor cores take fp8 where 16 divides tokens, inputs and outputs of a rank");
    return OK;
}

/* On CUDA the partial sums of db are computed after the product on the stream, so they reuse its workspace. */
static int64_t own_work(const struct call *call, enum row_kind kind, const struct gemm *g) {
    int64_t bytes = gemm_work(g, call->on, call->n_threads), sums = 0;
    if (call->on == DEVICE_CUDA && kind == ROW_BACKWARD_WEIGHT && call->step->n_weight > 1)
        sums = linear_chunks(call).bytes;
    return bytes > sums ? bytes : sums;
}

struct fp8_work fp8_work(const struct call *call, enum row_kind kind) {
    struct gemm g = linear_gemm(call, kind);
    int64_t size = call->on == DEVICE_CUDA ? 1 : (int64_t)dtype_size(g.ab_dtype), own = own_work(call, kind, &g);
    bool a_is_x = call->on == DEVICE_CUDA && kind == ROW_FORWARD;
    struct fp8_work w = {.a = arena_align_on(call->on, own)};
    w.b = w.a + (a_is_x ? 0 : arena_align_on(call->on, g.m * g.k * size));
    w.bytes = w.b + g.k * g.n * size;
    return w;
}

/* ---- blocks ---- */
/* On CUDA: codes of a and b, scales of a and b. */
static struct fp8_work blocks_work_cuda(const struct call *call, enum row_kind kind, const struct gemm *g) {
    const enum device_kind on = call->on;
    const struct block_rule *rule = &call->step->blocks;
    const enum dtype a_code = kind == ROW_FORWARD ? rule->operand.element : rule->gradient.element;
    const bool b_is_kept = kind == ROW_BACKWARD_WEIGHT;
    struct fp8_work w = {.a = arena_align_on(on, own_work(call, kind, g))};
    w.b = w.a + arena_align_on(on, block_code_bytes(a_code, g->m * g->k));
    w.a_scale = w.b + (b_is_kept ? 0 : arena_align_on(on, block_code_bytes(rule->operand.element, g->n * g->k)));
    w.b_scale = w.a_scale + arena_align_on(on, block_tiled_bytes(g->m, g->k / rule->operand.size));
    w.bytes = w.b_scale + block_tiled_bytes(g->n, g->k / rule->operand.size);
    return w;
}

/* On the CPU both operands are widened. */
struct fp8_work blocks_work(const struct call *call, enum row_kind kind) {
    struct gemm g = linear_gemm(call, kind);
    if (call->on == DEVICE_CUDA) return blocks_work_cuda(call, kind, &g);
    int64_t size = (int64_t)dtype_size(g.ab_dtype);
    struct fp8_work w = {.a = arena_align_on(call->on, gemm_work(&g, call->on, call->n_threads))};
    w.b = w.a + arena_align_on(call->on, size * g.m * g.k);
    w.bytes = w.b + size * g.k * g.n;
    return w;
}

uint32_t blocks_signs(const struct call *call) {
    return philox((struct philox_counter){{0}}, rng_key(call->seed, rng_stream("hadamard"), 0)).v[0];
}
double blocks_tensor_scale(const struct call *call, enum fp8_tensor t, enum block_product p) {
    return blocks_have_levels(call) ? fp8_scale(call, t) / (blocks_are_mixed(call, p) ? BLOCK_MIX_GROWS : 1) : 1;
}
double blocks_alpha(const struct call *call, enum fp8_tensor a, enum fp8_tensor b, enum block_product p) {
    return 1 / (blocks_tensor_scale(call, a, p) * blocks_tensor_scale(call, b, p));
}

static int64_t linear_fp8_work(const struct call *call, enum row_kind kind) { return fp8_work(call, kind).bytes; }

/* A cast reads numbers in the model's dtype and writes codes. W is cast for y and dx, dy for dx and dW; dW also
 * transposes the codes of x. */
static double cast_bytes(const struct call *call, enum row_kind kind) {
    double size = 1 + (double)dtype_size(call->weight[0].type->dtype);
    double w = size * (double)type_n(call->weight[0].type), dy = size * (double)type_n(call->out[0].type);
    if (kind == ROW_BACKWARD_INPUT) return dy + w;
    if (kind == ROW_BACKWARD_WEIGHT) return dy + 2 * (double)type_n(call->in[0].type);
    return w;
}

/* cost_traffic counts dx as fp8, the dtype of in[0]. Here dx counts in the model's dtype. */
static struct cost linear_fp8_cost(const struct call *call, enum row_kind kind) {
    struct linear_sizes s = linear_sizes(call);
    struct cost cost = cost_traffic(call, kind);
    if (kind == ROW_BACKWARD_INPUT) cost.bytes += (double)(type_bytes(call->din[0].type) - type_n(call->in[0].type));
    linear_cost_product(&s, kind, &cost);
    cost.cast_bytes = cast_bytes(call, kind);
    return cost;
}

enum { ADA = 89, BLACKWELL = 100 };

enum status blocks_supported(const struct device *d, const char *recipe) {
    if (d->kind != DEVICE_CUDA || d->capability >= BLACKWELL) return OK;
    return FAIL(E_CONFIG,
                "fp8-recipe=%s: the compute capability of %s is %d.%d, and tensor cores take scales of blocks from "
                "10.0 on; %s, or use device cpu, which emulates it",
                recipe, d->name, d->capability / 10, d->capability % 10,
                d->capability >= ADA ? "use fp8-recipe delayed" : "leave fp8 out");
}

enum status fp8_supported(const struct device *d) {
    if (d->kind != DEVICE_CUDA || d->capability >= ADA) return OK;
    return FAIL(E_CONFIG,
                "%s has no fp8: its compute capability is %d.%d, and tensor cores multiply in fp8 from 8.9 on; leave "
                "fp8 out, or use device cpu",
                d->name, d->capability / 10, d->capability % 10);
}

DECLARE_KERNELS_FBW(linear_fp8, cpu);

kernel linear_fp8_forward_cuda, linear_fp8_backward_input_cuda, linear_fp8_backward_weight_cuda;
#define CUDA_KERNELS {linear_fp8_forward_cuda, linear_fp8_backward_input_cuda, linear_fp8_backward_weight_cuda}

const struct op op_linear_fp8 = {
    .name = "linear_fp8",
    .typing = TYPING_PRODUCT,
    .rule = RULE_FP8,
    .shape = linear_fp8_shape,
    .needs = {.bi_weight = WEIGHT(0), .bw_in = IN(0)},
    .has_backward_input = true,
    .has_backward_weight = true,
    .sets_dweight = WEIGHT(0),
    .defer_weight = true,
    .work = linear_fp8_work,
    .cost = linear_fp8_cost,
    .kernels = {[DEVICE_CPU] = KERNELS_FBW(linear_fp8, cpu),
                WITH_CUDA([DEVICE_CUDA] = {[FP32] = CUDA_KERNELS, [BF16] = CUDA_KERNELS})},
};
