/* ranks: 1  device: any
 *
 * Casts by blocks on the device: their codes and scales are block.c's to the bit, and lie where cuBLASLt reads them.
 * Products of the codes are the CPU's: to the bit where no sum is rounded. test_block.c has those that are rounded. */
#include "lib/base/rng.h"
#include "lib/device/arena.h"
#include "lib/ops/fp8_cuda.h"
#include "lib/ops/linear.h"
#include "lib/ops/test_op.h"
#include <float.h>
#include <stdlib.h>

/* ---- tiles of scales ---- */
/* cuBLAS library documentation, "1D block scaling factors layout": its figure of a tile, and its picture of several. */
TEST(test_scales_lie_where_the_documentation_has_them) {
    static const struct { int row, block, tiled, offset; } table[] = {
        {0, 0, 4, 0},     {0, 1, 4, 1},     {0, 3, 4, 3},      {32, 0, 4, 4},      {32, 3, 4, 7},     {64, 0, 4, 8},
        {96, 0, 4, 12},   {96, 3, 4, 15},   {1, 0, 4, 16},     {33, 2, 4, 22},     {31, 0, 4, 496},   {63, 0, 4, 500},
        {127, 3, 4, 511}, {0, 4, 8, 512},   {127, 7, 8, 1023}, {128, 0, 8, 1024},  {128, 4, 8, 1536}, {128, 0, 4, 512},
        {160, 5, 8, 1541}, {255, 11, 12, 3071}, {256, 0, 12, 3072}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(block_scale_place(table[i].row, table[i].block, table[i].tiled), table[i].offset);
    for (int offset = 0; offset < 512; offset++)                     /* the documentation's way back */
        assert_int_equal(block_scale_place(offset % 16 / 4 * 32 + offset / 16, offset % 4, 4), offset);
    assert_int_equal(block_tiled_bytes(128, 4), 512);
    assert_int_equal(block_tiled_bytes(129, 4), 1024);
    assert_int_equal(block_tiled_bytes(1, 5), 1024);
    assert_int_equal(block_tiled(8), 8);
}

static const struct block_format FORMATS[] = {
    {FP8_E4M3, 32, BLOCK_SCALE_DOWN}, {FP8_E5M2, 32, BLOCK_SCALE_DOWN}, {FP4_E2M1, 32, BLOCK_SCALE_DOWN},
    {FP8_E4M3, 32, BLOCK_SCALE_UP},   {FP8_E5M2, 32, BLOCK_SCALE_UP},   {FP4_E2M1, 32, BLOCK_SCALE_UP},
    {FP4_E2M1, 16, BLOCK_SCALE_E4M3},
};
enum { N_FORMATS = sizeof FORMATS / sizeof *FORMATS, NV = N_FORMATS - 1, FIRST = 3, N_TENSORS = 6 };

/* ---- casts to the bit ---- */
#ifdef TRIVIUM_CUDA
extern blocks_cast_kernel blocks_cast_cuda_fp32, blocks_cast_cuda_bf16;
extern blocks_tile_kernel blocks_tile_cuda_fp32;

/* More than one tile of scales in both directions, and the last ones end early: 5 blocks of 32, 10 of 16, and 7 and 14,
 * which are 8 and 16 in tiles. dy is a rank's part of the outputs. */
enum { B = 2, T = 80, ROWS = B * T, COLUMNS = 224 };
struct cast_test {
    struct block_rule rule;
    struct step step;
    struct call call;
    struct type y;
    double tensor[N_TENSORS], amax[N_TENSORS];
    struct blocks_cast cast;
    enum dtype dtype;
    double *x;                                   /* ROWS x COLUMNS */
};

static double cell(const struct cast_test *t, int64_t vector, int64_t k) {
    return blocks_turned(&t->cast) ? t->x[k * COLUMNS + vector] : t->x[vector * COLUMNS + k];
}
static int64_t n_vectors(const struct cast_test *t) { return blocks_turned(&t->cast) ? COLUMNS : ROWS; }
static int64_t length(const struct cast_test *t) { return blocks_turned(&t->cast) ? ROWS : COLUMNS; }

/* A number half way between two codes, or next to it, after the factor of a block whose largest is m. */
static double beside_a_tie(const struct block_format *f, double tensor, double m, int i) {
    static const double ties[] = {0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, 17, 208, 0x1.08p-6};
    float code = e4m3_to_float(block_scale_code(f, m, tensor));
    double factor = f->scale == BLOCK_SCALE_E4M3 ? fmin((double)(1 / (code * (1 / (float)tensor))), FLT_MAX)
                                                 : 1 / block_scale_value(f, block_scale_code(f, m, tensor));
    float tie = (float)(ties[i % 10] / factor);
    double x = (double)(i % 3 == 0 ? tie : nextafterf(tie, i % 3 == 1 ? 0 : FLT_MAX));
    return x <= m ? x : m;
}

/* Blocks of all sizes: normal numbers, ties, zeros, subnormals; now and then one that is not finite. */
static double hard_number(const struct block_format *f, double tensor, int64_t block, int i) {
    static const double odd[] = {NAN, INFINITY, -INFINITY};
    bool levels = f->scale == BLOCK_SCALE_E4M3;
    double n = rng_normal(1, rng_stream("hard"), (uint64_t)(block * 64 + i));
    double size = ldexp(1, levels ? (int)(block * 5 % 28) - 20 : (int)(block * 37 % 275) - 148);
    if (block % 11 == 10) return i % 5 ? 0 : i % 2 ? -0.0 : block % 2 ? 0 : 0x1p-149;
    if (block % 41 == 40 && i == (int)(block % 16)) return odd[block % 3];
    if (block % 2 == 0) return (double)(float)fmax(-FLT_MAX, fmin(FLT_MAX, n * size));
    double m = (double)(float)fmin(FLT_MAX, size * (1 + (double)(block % 8) / 8));
    double x = i == 0 ? m : beside_a_tie(f, tensor, m, (int)block + i);
    return n < 0 ? -x : x;
}

static void fill_cast(struct cast_test *t) {
    struct block_format f = blocks_format(&t->call, t->cast.tensor);
    double tensor = blocks_tensor_scale(&t->call, t->cast.tensor, t->cast.product), one = 0;
    for (int64_t v = 0; v < n_vectors(t); v++)
        for (int64_t k = 0; k < length(t); k++) {
            double x = hard_number(&f, tensor, v * (length(t) / f.size) + k / f.size, (int)(k % f.size));
            dtype_set(&one, t->dtype, 0, x);
            t->x[blocks_turned(&t->cast) ? k * COLUMNS + v : v * COLUMNS + k] = dtype_get(&one, t->dtype, 0);
        }
}

static struct cast_test *cast_test_new(int format, enum dtype dtype, enum fp8_tensor tensor, enum block_product p,
                                       bool hadamard) {
    struct cast_test *t = calloc(1, sizeof *t);
    const struct block_format f = FORMATS[format];
    t->y = op_type_part(op_type(dtype, "BTK", B, T, 512), 'K', 32, COLUMNS);
    t->rule = (struct block_rule){.scales = {FIRST, t->tensor, t->amax}, .operand = f, .gradient = f,
                                  .square = format == NV, .stochastic = f.element == FP4_E2M1, .hadamard = hadamard,
                                  .stream = rng_stream("w")};
    t->tensor[FIRST + FP8_X] = 0x1.5p6, t->tensor[FIRST + FP8_W] = 0x1.9p8, t->tensor[FIRST + FP8_DY] = 0x1.36ap10;
    t->step = (struct step){.blocks = t->rule};
    t->call = (struct call){.step = &t->step, .out = {{NULL, &t->y}}, .training = true, .seed = 7, .n_step = 3,
                            .first_sample = 5, .on = test_device()->kind, .device = test_device()};
    t->cast = (struct blocks_cast){tensor, p, NULL, ROWS, COLUMNS, NULL, NULL};
    t->dtype = dtype;
    t->x = malloc(ROWS * COLUMNS * sizeof *t->x);
    fill_cast(t);
    return t;
}

/* The codes of the block from number k of a vector on, by block.c. */
static void right_block(const struct cast_test *t, int64_t vector, int64_t k, uint8_t *code, uint8_t *scale) {
    const struct block_format f = blocks_format(&t->call, t->cast.tensor);
    const bool square = t->rule.square && t->cast.tensor == FP8_W, turned = blocks_turned(&t->cast);
    const bool mixed = blocks_are_mixed(&t->call, t->cast.product);
    const int n = square ? f.size * f.size : f.size;
    double x[BLOCK_MOST];
    uint32_t draw[32] = {0};
    uint8_t all[BLOCK_MOST];
    const int64_t first = square ? vector / f.size * f.size : vector;
    for (int i = 0; i < n; i++) x[i] = cell(t, first + i / f.size, k + i % f.size);
    for (int i = 0; i < f.size && mixed; i += BLOCK_MIXED) block_mix(blocks_signs(&t->call), x + i);
    const struct philox_key key = rng_key(7, t->rule.stream, 3);
    const bool drawn = t->rule.stochastic && t->cast.tensor == FP8_DY;
    for (int i = 0; i < f.size && drawn; i++) {
        uint32_t r = (uint32_t)(turned ? k + i : vector), c = (uint32_t)(turned ? vector : k + i);
        draw[i] = blocks_draw_four(&t->y.shape, key, 5, t->cast.product, r, c / 4 * 4).v[c % 4];
    }
    double tensor = blocks_tensor_scale(&t->call, t->cast.tensor, t->cast.product);
    block_cast(&f, tensor, n, x, drawn ? draw : NULL, all, scale);
    memcpy(code, all + (square ? vector % f.size * f.size : 0), (size_t)f.size);
}

static uint8_t *on_device(int64_t bytes) {
    void *at;
    assert_ok(test_device()->allocate(test_device(), bytes, &at));
    assert_ok(test_device()->clear(test_device(), at, bytes));
    return at;
}

/* Codes and scales as the kernel writes them; where nothing is written, 0xee stays. */
static void run_cast(struct cast_test *t, uint8_t *code, int64_t code_bytes, uint8_t *scale, int64_t scale_bytes) {
    static blocks_cast_kernel *const casts[N_DTYPES] = {[FP32] = blocks_cast_cuda_fp32, [BF16] = blocks_cast_cuda_bf16};
    const struct device *d = test_device();
    int64_t x_bytes = ROWS * COLUMNS * (int64_t)dtype_size(t->dtype), amax_bytes = sizeof t->amax;
    void *x = malloc((size_t)x_bytes);
    uint8_t *x_there = on_device(x_bytes), *amax_there = on_device(amax_bytes);
    for (int i = 0; i < ROWS * COLUMNS; i++) dtype_set(x, t->dtype, i, t->x[i]);
    memset(code, 0xee, (size_t)code_bytes), memset(scale, 0xee, (size_t)scale_bytes);
    t->cast.x = x_there, t->cast.code = on_device(code_bytes), t->cast.scale = on_device(scale_bytes);
    t->step.blocks.scales.amax = (double *)(void *)amax_there;
    assert_ok(d->upload(d, x_there, x, x_bytes));
    assert_ok(d->upload(d, t->cast.code, code, code_bytes));
    assert_ok(d->upload(d, t->cast.scale, scale, scale_bytes));
    assert_ok(casts[t->dtype](&t->call, &t->cast));
    assert_ok(d->download(d, code, t->cast.code, code_bytes));
    assert_ok(d->download(d, scale, t->cast.scale, scale_bytes));
    assert_ok(d->download(d, t->amax, amax_there, amax_bytes));
    d->release(d, x_there, x_bytes), d->release(d, amax_there, amax_bytes);
    d->release(d, t->cast.code, code_bytes), d->release(d, t->cast.scale, scale_bytes);
    free(x);
}

static double largest(const struct cast_test *t) {
    double most = 0;
    for (int i = 0; i < ROWS * COLUMNS; i++) most = isfinite(t->x[i]) ? fmax(most, fabs(t->x[i])) : INFINITY;
    return most;
}

/* The scales that should be there: in tiles with zeros, or, of x for dW, as they are. */
static void check_scales(const struct cast_test *t, const uint8_t *scale, const uint8_t *right) {
    int64_t blocks = length(t) / blocks_format(&t->call, t->cast.tensor).size, tiled = block_tiled(blocks);
    bool kept = t->cast.tensor == FP8_X && t->cast.product == FOR_DW;
    for (int64_t at = 0; at < (kept ? n_vectors(t) * blocks : block_tiled_bytes(n_vectors(t), blocks)); at++) {
        int64_t tile = at / 512, in = at % 512;
        int64_t vector = kept ? at / blocks : tile / (tiled / 4) * 128 + in % 16 / 4 * 32 + in / 16;
        int64_t block = kept ? at % blocks : tile % (tiled / 4) * 4 + in % 4;
        bool there = vector < n_vectors(t) && block < blocks;
        uint8_t wanted = there ? right[vector * blocks + block] : 0;
        if (scale[at] != wanted)
            fail_msg("scale of block %d of vector %d, byte %d: 0x%x, not 0x%x", (int)block, (int)vector, (int)at,
                     scale[at], wanted);
    }
}

static void check_cast(int format, enum dtype dtype, enum fp8_tensor tensor, enum block_product p, bool hadamard) {
    struct cast_test *t = cast_test_new(format, dtype, tensor, p, hadamard);
    const struct block_format f = FORMATS[format];
    const int64_t blocks = length(t) / f.size, code_bytes = block_code_bytes(f.element, ROWS * COLUMNS);
    const int64_t scale_bytes = block_tiled_bytes(n_vectors(t), blocks);
    uint8_t *code = malloc((size_t)code_bytes), *scale = malloc((size_t)scale_bytes);
    uint8_t *right = malloc((size_t)(n_vectors(t) * blocks));
    run_cast(t, code, code_bytes, scale, scale_bytes);
    for (int64_t v = 0; v < n_vectors(t); v++)
        for (int64_t k = 0; k < length(t); k += f.size) {
            uint8_t wanted[32], got[32];
            right_block(t, v, k, wanted, &right[v * blocks + k / f.size]);
            block_unpack(f.element, f.size, code + block_code_bytes(f.element, v * length(t) + k), got);
            for (int i = 0; i < f.size; i++)
                if (got[i] != wanted[i])
                    fail_msg("format %d, %s, tensor %d for product %d: code %d of vector %d, of %a, is 0x%x, not 0x%x",
                             format, dtype_name(dtype), tensor, p, (int)k + i, (int)v, cell(t, v, k + i), got[i],
                             wanted[i]);
        }
    check_scales(t, scale, right);
    assert_close(t->amax[FIRST + tensor], format == NV ? largest(t) : 0, 0);
    free(code), free(scale), free(right), free(t->x), free(t);
}

TEST(test_casts_by_blocks_are_the_cpus_to_the_bit) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    for (int format = 0; format < N_FORMATS; format++)
        for (enum dtype dtype = FP32; dtype <= BF16; dtype++) {
            check_cast(format, dtype, FP8_X, FOR_Y, false);
            check_cast(format, dtype, FP8_X, FOR_DW, format == NV);
            check_cast(format, dtype, FP8_W, FOR_Y, false);
            check_cast(format, dtype, FP8_W, FOR_DX, false);
            check_cast(format, dtype, FP8_DY, FOR_DX, false);
            check_cast(format, dtype, FP8_DY, FOR_DW, false);
        }
    check_cast(NV, FP32, FP8_DY, FOR_DW, true);
    check_cast(NV, BF16, FP8_DY, FOR_DW, true);
}

TEST(test_scales_that_were_kept_become_tiles) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    enum { N = 130, BLOCKS = 7, BYTES = 256 * 8 };
    const struct device *d = test_device();
    struct call call = {.on = d->kind, .device = d};
    uint8_t kept[N * BLOCKS], tiled[BYTES], *from = on_device(sizeof kept), *to = on_device(BYTES);
    for (size_t i = 0; i < sizeof kept; i++) kept[i] = (uint8_t)(1 + i % 255);
    memset(tiled, 0xee, sizeof tiled);
    assert_ok(d->upload(d, from, kept, sizeof kept));
    assert_ok(d->upload(d, to, tiled, BYTES));
    assert_ok(blocks_tile_cuda_fp32(&call, from, N, BLOCKS, to));
    assert_ok(d->download(d, tiled, to, BYTES));
    d->release(d, from, sizeof kept), d->release(d, to, BYTES);
    for (int row = 0; row < 256; row++)
        for (int block = 0; block < 8; block++)
            assert_int_equal(tiled[block_scale_place(row, block, 8)],
                             row < N && block < BLOCKS ? kept[row * BLOCKS + block] : 0);
}
#else
TEST(test_casts_by_blocks_are_the_cpus_to_the_bit) { skip(); }
TEST(test_scales_that_were_kept_become_tiles) { skip(); }
#endif

/* ---- layers ---- */
/* x (samples,96,160), W (3,64,160): R, K and N are above 128, with scales in more than one tile. */
enum { TOKENS = 96, N = 160, K = 192 };
struct layer {
    int samples;
    int64_t first_sample;
    struct type x, code, scale, w, b, y;
    double tensor[N_TENSORS], amax[N_TENSORS];
    struct step cast, linear;
    struct tensor in, codes, scales, weight, bias, out, dout, din, dw, db;
};
enum { N_OPERANDS = 10 };
static struct tensor *operand(struct layer *l, int i) {
    struct tensor *const all[N_OPERANDS] = {&l->in, &l->codes, &l->scales, &l->weight, &l->bias,
                                            &l->out, &l->dout, &l->din, &l->dw, &l->db};
    return all[i];
}

static struct call call_of(struct layer *l, const struct step *step) {
    return (struct call){.step = step, .in = {l->in, l->codes, l->scales}, .n_threads = 1,
                         .out = {step->op == &op_cast_blocks ? l->codes : l->out, l->scales},
                         .weight = {l->weight, l->bias}, .din = {l->din}, .dout = {l->dout}, .dweight = {l->dw, l->db},
                         .training = true, .seed = 7, .n_step = 3, .first_sample = l->first_sample, .fresh = 1,
                         .on = DEVICE_CPU, .device = device_cpu()};
}

static struct block_rule rule_of(int operand_format, int gradient, bool stochastic, bool hadamard) {
    return (struct block_rule){.operand = FORMATS[operand_format], .gradient = FORMATS[gradient],
                               .square = operand_format == NV, .stochastic = stochastic, .hadamard = hadamard,
                               .stream = rng_stream("w")};
}

/* Numbers that every format has, with scales that are powers of two: the largest of a block is 6 x 2^e, in rows and in
 * columns, where e is one of a square of 32. Sums of their products are exact in fp32. */
static void fill(const struct tensor *t, const char *name, int64_t columns, int64_t first) {
    for (int64_t i = 0; i < type_n(t->type); i++) {
        int64_t r = first + i / columns, c = i % columns;
        int e = (int)(rng_uniform(1, rng_stream(name), (uint64_t)(r / 32 * 64 + c / 32)) * 4) - 2;
        double u = rng_uniform(2, rng_stream(name), (uint64_t)(r * columns + c));
        static const double digits[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
        double x = (r + c) % 16 == 0 ? 6 : digits[(int)(u * 8)];
        dtype_set(t->data, t->type->dtype, i, ldexp((r * 5 + c) % 3 ? x : -x, e));
    }
}

static void layer_init(struct layer *l, enum dtype dtype, struct block_rule rule, int samples, int64_t first_sample) {
    *l = (struct layer){.samples = samples, .first_sample = first_sample,
                        .x = op_type(dtype, "BTC", samples, TOKENS, N), .w = op_type(dtype, "3DC", 3, K / 3, N),
                        .b = op_type(dtype, "3D", 3, K / 3), .y = op_type(dtype, "BT3D", samples, TOKENS, 3, K / 3)};
    struct type types[MAX_OUT];
    rule.scales = (struct fp8_rule){FIRST, l->tensor, l->amax};
    l->tensor[FIRST + FP8_X] = 4, l->tensor[FIRST + FP8_W] = 8, l->tensor[FIRST + FP8_DY] = 2;
    l->cast = (struct step){.op = &op_cast_blocks, .n_in = 1, .n_out = 2, .blocks = rule};
    l->linear = (struct step){.op = &op_linear_blocks, .n_in = 3, .n_out = 1, .n_weight = 2, .blocks = rule};
    l->in.type = &l->x;
    struct call c = call_of(l, &l->cast);
    assert_ok(op_cast_blocks.shape(&c, types));
    l->code = types[0], l->scale = types[1];
    const struct type *of[N_OPERANDS] = {&l->x, &l->code, &l->scale, &l->w, &l->b, &l->y, &l->y, &l->x, &l->w, &l->b};
    for (int i = 0; i < N_OPERANDS; i++) *operand(l, i) = tensor_new(of[i]);
    int64_t first = first_sample * TOKENS;
    fill(&l->in, "x", N, first), fill(&l->weight, "w", N, 0), fill(&l->dout, "dy", K, first);
    fill(&l->bias, "b", K, 0);
    for (int k = 0; k < K; k++) dtype_set(l->db.data, dtype, k, 0);
}
static void layer_fini(struct layer *l) {
    for (int i = 0; i < N_OPERANDS; i++) free(operand(l, i)->data);
}

static enum status run(struct layer *l, const struct step *step, enum row_kind kind, const struct device *d) {
    struct step there = *step;
    struct call c = call_of(l, &there);
    c.on = d->kind, c.watched = true;
    c.work = aligned_alloc(256, (size_t)(op_work(&c, kind) + 3 * 256) / 256 * 256);
    enum status status;
    if (d->kind == DEVICE_CPU) {
        status = op_run(&c, kind);
    } else {
        assert_ok(d->allocate(d, sizeof l->amax, (void **)&there.blocks.scales.amax));
        assert_ok(d->upload(d, there.blocks.scales.amax, l->amax, sizeof l->amax));
        status = op_case_run_call(&c, kind);
        assert_ok(d->download(d, l->amax, there.blocks.scales.amax, sizeof l->amax));
        d->release(d, there.blocks.scales.amax, sizeof l->amax);
    }
    free(c.work);
    return status;
}
static void run_all(struct layer *l, const struct device *d) {
    assert_ok(run(l, &l->cast, ROW_FORWARD, d));
    assert_ok(run(l, &l->linear, ROW_FORWARD, d));
    assert_ok(run(l, &l->linear, ROW_BACKWARD_INPUT, d));
    assert_ok(run(l, &l->linear, ROW_BACKWARD_WEIGHT, d));
}

static void same(const struct tensor *got, const struct tensor *right, const char *what) {
    for (int64_t i = 0; i < type_n(right->type); i++) {
        double a = dtype_get(got->data, got->type->dtype, i), b = dtype_get(right->data, right->type->dtype, i);
        if (!(a == b)) fail_msg("%s, element %d: %.17g, not %.17g", what, (int)i, a, b);
    }
}

/* No sum of these numbers is rounded, and fp32 results are not, so the order of sums and the device do not matter. */
static void check_products(enum dtype dtype, struct block_rule rule) {
    struct layer cpu, there;
    layer_init(&cpu, dtype, rule, 2, 5), layer_init(&there, dtype, rule, 2, 5);
    run_all(&cpu, device_cpu()), run_all(&there, test_device());
    same(&there.out, &cpu.out, "y"), same(&there.din, &cpu.din, "dx");
    same(&there.dw, &cpu.dw, "dW"), same(&there.db, &cpu.db, "db");
    assert_memory_equal(there.amax, cpu.amax, sizeof cpu.amax);
    layer_fini(&cpu), layer_fini(&there);
}
TEST(test_products_by_blocks_are_the_cpus_to_the_bit) {
    for (enum dtype dtype = FP32; dtype <= BF16; dtype++) {
        check_products(dtype, rule_of(0, 0, false, false));
        check_products(dtype, rule_of(3, 3, false, false));
        check_products(dtype, rule_of(3, 4, false, false));
        check_products(dtype, rule_of(NV, NV, true, false));
        check_products(dtype, rule_of(NV, NV, false, false));
    }
}

/* Three microbatches of one sample have the codes, and so the results, of one microbatch of three: draws are those of
 * the sample in the global batch. */
TEST(test_microbatches_draw_as_one_does) {
    const bool cuda = test_device()->kind == DEVICE_CUDA;
    for (int format = cuda ? NV : NV - 1; format <= NV; format++) {
        struct layer all, one;
        double scale = FORMATS[format].scale == BLOCK_SCALE_E4M3 ? 1.37 : 1;       /* numbers between codes */
        layer_init(&all, FP32, rule_of(format, format, true, false), 3, 5);
        all.tensor[FIRST + FP8_DY] *= scale;
        for (int64_t i = 0; i < type_n(&all.y); i++) ((float *)all.dout.data)[i] *= 0.83f + (float)(i % 7) / 16;
        run_all(&all, test_device());
        for (int sample = 0; sample < 3; sample++) {
            layer_init(&one, FP32, rule_of(format, format, true, false), 1, 5 + sample);
            one.tensor[FIRST + FP8_DY] *= scale;
            memcpy(one.dout.data, (float *)all.dout.data + sample * TOKENS * K, TOKENS * K * sizeof(float));
            run_all(&one, test_device());
            assert_memory_equal(one.din.data, (float *)all.din.data + sample * TOKENS * N, TOKENS * N * sizeof(float));
            assert_memory_equal(one.out.data, (float *)all.out.data + sample * TOKENS * K, TOKENS * K * sizeof(float));
            layer_fini(&one);
        }
        layer_fini(&all);
    }
}

/* E2M1 in E8M0 has kernels that cast, and no product. */
TEST(test_products_that_the_library_has_not_are_refused_by_name) {
    if (test_device()->kind != DEVICE_CUDA) skip();
    struct layer l;
    layer_init(&l, BF16, rule_of(5, 5, false, false), 1, 0);
    assert_ok(run(&l, &l.cast, ROW_FORWARD, test_device()));
    assert_fails(run(&l, &l.linear, ROW_FORWARD, test_device()), E_DEVICE, "no algorithm", "fp4_e2m1 x fp4_e2m1",
                 "32 with a scale");
    layer_fini(&l);
}

TESTS(unit_test(test_scales_lie_where_the_documentation_has_them),
      unit_test(test_casts_by_blocks_are_the_cpus_to_the_bit), unit_test(test_scales_that_were_kept_become_tiles),
      unit_test(test_products_by_blocks_are_the_cpus_to_the_bit), unit_test(test_microbatches_draw_as_one_does),
      unit_test(test_products_that_the_library_has_not_are_refused_by_name))
