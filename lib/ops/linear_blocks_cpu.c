/* Casts by blocks, and products of the codes. See lib/ops/fp8.h.
 *
 * As with fp8, codes are widened to the model's dtype and multiplied as in linear_cpu.c. A code times its scale has at
 * most 6 significant bits, so bf16 holds it, down to its smallest number, 2^-133. Only NVFP4's scales of tensors are
 * left out, and multiply the sum. */
#include "lib/ops/fp8.h"
#include "lib/ops/linear_cpu.h"

kernel CPU(cast_blocks_forward);
fp8_amax_kernel CPU(fp8_note_amax);
kernel CPU(linear_blocks_forward), CPU(linear_blocks_backward_input), CPU(linear_blocks_backward_weight);

/* A matrix of R rows and C columns. */
struct operand {
    const struct call *call;
    enum fp8_tensor tensor;
    enum block_product product;
    const elem *x;
    int64_t R, C;
    struct block_format format;
    double scale;                        /* of the tensor */
    bool mixed;                          /* by block_mix, along tokens */
    uint32_t signs;
};

static struct operand operand_of(const struct call *call, enum fp8_tensor t, enum block_product p,
                                 const struct tensor *x, int64_t C) {
    const bool mixed = blocks_are_mixed(call, p);
    struct operand o = {.call = call, .tensor = t, .product = p, .x = x->data, .R = type_n(x->type) / C, .C = C,
                        .format = blocks_format(call, t), .scale = blocks_tensor_scale(call, t, p), .mixed = mixed,
                        .signs = mixed ? blocks_signs(call) : 0};
    if (blocks_have_levels(call)) CPU(fp8_note_amax)(call, t, o.x, o.R * C);
    return o;
}

/* ---- draws ---- */
static bool draws(const struct operand *o) { return o->tensor == FP8_DY && o->call->step->blocks.stochastic; }

/* The draws of dy's row r, outputs k .. k+3; 4 divides k. */
static void draw_four(const struct operand *o, int64_t r, int64_t k, uint32_t word[4]) {
    const struct call *call = o->call;
    struct philox_counter c = blocks_draw_four(&call->out[0].type->shape,
                                               rng_key(call->seed, call->step->blocks.stream, call->n_step),
                                               call->first_sample, o->product, (uint32_t)r, (uint32_t)k);
    for (int i = 0; i < 4; i++) word[i] = c.v[i];
}

/* ---- casts ---- */
/* Row r's block from column c on. */
static void cast_along(const struct operand *o, int64_t r, int64_t c, elem *to) {
    double x[32] = {0};
    uint32_t word[32] = {0};
    uint8_t code[32], scale;
    const int n = o->format.size;
    for (int i = 0; i < n; i++) x[i] = (double)load(o->x[r * o->C + c + i]);
    for (int i = 0; i < n && draws(o); i += 4) draw_four(o, r, c + i, word + i);
    block_cast(&o->format, o->scale, n, x, draws(o) ? word : NULL, code, &scale);
    block_values(&o->format, n, code, scale, x);
    for (int i = 0; i < n; i++) to[r * o->C + c + i] = store((real)x[i]);
}

/* The blocks from row r on of columns c .. c+3: their codes and scales. A word of draws is for four columns. */
struct four { uint8_t code[4][32], scale[4]; };
static void cast_down(const struct operand *o, int64_t r, int64_t c, struct four *out) {
    double x[4][32] = {{0}};
    uint32_t word[4][32] = {{0}}, drawn[4];
    const int n = o->format.size;
    for (int i = 0; i < n; i++) {
        if (draws(o)) draw_four(o, r + i, c, drawn);
        for (int j = 0; j < 4; j++) {
            x[j][i] = (double)load(o->x[(r + i) * o->C + c + j]);
            if (draws(o)) word[j][i] = drawn[j];
        }
    }
    for (int j = 0; j < 4; j++) {
        for (int i = 0; i < n && o->mixed; i += BLOCK_MIXED) block_mix(o->signs, x[j] + i);
        block_cast(&o->format, o->scale, n, x[j], draws(o) ? word[j] : NULL, out->code[j], &out->scale[j]);
    }
}

static void store_down(const struct block_format *f, const struct four *in, int64_t C, elem *to) {
    double x[32] = {0};
    for (int j = 0; j < 4; j++) {
        block_values(f, f->size, in->code[j], in->scale[j], x);
        for (int i = 0; i < f->size; i++) to[i * C + j] = store((real)x[i]);
    }
}

/* The square from row r and column c on. */
static void cast_square(const struct operand *o, int64_t r, int64_t c, elem *to) {
    double x[BLOCK_MOST] = {0};
    uint8_t code[BLOCK_MOST], scale;
    const int n = o->format.size;
    for (int i = 0; i < n * n; i++) x[i] = (double)load(o->x[(r + i / n) * o->C + c + i % n]);
    block_cast(&o->format, o->scale, n * n, x, NULL, code, &scale);
    block_values(&o->format, n * n, code, scale, x);
    for (int i = 0; i < n * n; i++) to[(r + i / n) * o->C + c + i % n] = store((real)x[i]);
}

/* Cast all blocks along rows, down columns, or squares, and widen them into `to`. */
static void cast_rows(const struct operand *o, elem *to) {
#pragma omp parallel for
    for (int64_t r = 0; r < o->R; r++)
        for (int64_t c = 0; c < o->C; c += o->format.size) cast_along(o, r, c, to);
}
static void cast_columns(const struct operand *o, elem *to) {
#pragma omp parallel for
    for (int64_t r = 0; r < o->R; r += o->format.size)
        for (int64_t c = 0; c < o->C; c += 4) {
            struct four four;
            cast_down(o, r, c, &four);
            store_down(&o->format, &four, o->C, to + r * o->C + c);
        }
}
static void cast_squares(const struct operand *o, elem *to) {
#pragma omp parallel for
    for (int64_t r = 0; r < o->R; r += o->format.size)
        for (int64_t c = 0; c < o->C; c += o->format.size) cast_square(o, r, c, to);
}

/* ---- x for dW: its blocks lie one after the other, (sample, input, token) ---- */
/* The number of the block from row r on of column c. */
static int64_t block_number(const struct call *call, int64_t r, int64_t c, int64_t C) {
    int64_t T = call->in[0].type->shape.axis[1].n, size = call->step->blocks.operand.size;
    return (r / T * C + c) * (T / size) + r % T / size;
}

enum status CPU(cast_blocks_forward)(const struct call *call) {
    const struct shape *s = &call->in[0].type->shape;
    struct operand o = operand_of(call, FP8_X, FOR_DW, &call->in[0],
                                  type_n(call->in[0].type) / (s->axis[0].n * s->axis[1].n));
    const enum dtype element = o.format.element;
    const int64_t bytes = block_code_bytes(element, o.format.size);
#pragma omp parallel for
    for (int64_t r = 0; r < o.R; r += o.format.size)
        for (int64_t c = 0; c < o.C; c += 4) {
            struct four four;
            cast_down(&o, r, c, &four);
            for (int j = 0; j < 4; j++) {
                int64_t at = block_number(call, r, c + j, o.C);
                block_pack(element, o.format.size, four.code[j], (uint8_t *)call->out[0].data + at * bytes);
                ((uint8_t *)call->out[1].data)[at] = four.scale[j];
            }
        }
    return OK;
}

static void widen_input(const struct call *call, int64_t R, int64_t C, elem *to) {
    const struct block_format *f = &call->step->blocks.operand;
    const int64_t bytes = block_code_bytes(f->element, f->size);
#pragma omp parallel for
    for (int64_t r = 0; r < R; r += f->size)
        for (int64_t c = 0; c < C; c += 4) {
            struct four four;
            for (int j = 0; j < 4; j++) {
                int64_t at = block_number(call, r, c + j, C);
                block_unpack(f->element, f->size, (const uint8_t *)call->in[1].data + at * bytes, four.code[j]);
                four.scale[j] = ((const uint8_t *)call->in[2].data)[at];
            }
            store_down(f, &four, C, to + r * C + c);
        }
}

/* ---- products ---- */
struct product_of { struct gemm g; elem *a, *b; };

static struct product_of product_of(const struct call *call, enum row_kind kind, enum fp8_tensor a, enum fp8_tensor b) {
    struct fp8_work w = blocks_work(call, kind);
    char *work = call->work;
    struct product_of p = {linear_gemm(call, kind), (elem *)(work + w.a), (elem *)(work + w.b)};
    p.g.alpha = blocks_alpha(call, a, b, kind == ROW_BACKWARD_WEIGHT ? FOR_DW : FOR_Y);
    return p;
}

static void cast_w(const struct call *call, enum block_product product, elem *to) {
    struct operand o = operand_of(call, FP8_W, product, &call->weight[0], linear_sizes(call).N);
    if (call->step->blocks.square) cast_squares(&o, to);
    else if (product == FOR_Y) cast_rows(&o, to);
    else cast_columns(&o, to);
}

enum status CPU(linear_blocks_forward)(const struct call *call) {
    struct product_of p = product_of(call, ROW_FORWARD, FP8_X, FP8_W);
    const void *bias = call->step->n_weight > 1 ? call->weight[1].data : NULL;
    struct operand x = operand_of(call, FP8_X, FOR_Y, &call->in[0], linear_sizes(call).N);
    cast_rows(&x, p.a);
    cast_w(call, FOR_Y, p.b);
    return gemm_run(&p.g, p.a, p.b, bias, call->out[0].data, call->work);
}

enum status CPU(linear_blocks_backward_input)(const struct call *call) {
    struct product_of p = product_of(call, ROW_BACKWARD_INPUT, FP8_DY, FP8_W);
    struct operand dy = operand_of(call, FP8_DY, FOR_DX, &call->dout[0], linear_sizes(call).K);
    cast_rows(&dy, p.a);
    cast_w(call, FOR_DX, p.b);
    return gemm_run(&p.g, p.a, p.b, NULL, call->din[0].data, call->work);
}

/* The bias gradient sums dy itself, not its codes. */
enum status CPU(linear_blocks_backward_weight)(const struct call *call) {
    struct linear_sizes s = linear_sizes(call);
    struct product_of p = product_of(call, ROW_BACKWARD_WEIGHT, FP8_DY, FP8_X);
    struct operand dy = operand_of(call, FP8_DY, FOR_DW, &call->dout[0], s.K);
    p.g.c_dtype = call->dweight[0].type->dtype;
    if (call->step->n_weight > 1) bias_gradient(&call->dweight[1], call->dout[0].data, s.R, s.K);
    cast_columns(&dy, p.a);
    widen_input(call, s.R, s.N, p.b);
    return gemm_run(&p.g, p.a, p.b, NULL, call->dweight[0].data, call->work);
}
