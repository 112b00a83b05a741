/* fp8 with delayed scaling, and formats with a scale for each block (the end of this comment).
 *
 * Idea: products of 8-bit operands run twice as fast as products of 16-bit operands, and inputs that backward keeps
 * take half the memory. E4M3 has 3 bits of mantissa and a range of 2^-9 .. 448; E5M2 has 2 bits and 2^-16 .. 57344. So
 * every operand has a scale of its own, which puts its largest number at the top of the range:
 *
 *     code = fp8(s x)         x = code / s          s = largest / (2^margin max of the last H amax)
 *
 * amax is the largest |x| of one step, known when the step is over. So the scale of a step comes from the steps before
 * it, hence *delayed*. Numbers beyond the range saturate. Saturation is rare, because tensors change little from step
 * to step, the maximum of H steps outlasts a step of small numbers, and each unit of margin doubles the room.
 *
 * In the code: every linear step of a layer becomes cast_fp8 and linear_fp8 (lib/ops/fp8.h). Head, embedding and all
 * other ops stay in the model's dtype, and so do weights and gradients: this technique adds to mixed_precision.c, and
 * does not replace it. Each weight has three tensors with a scale, x, W and dy, numbered by the weight's number in the
 * model's table, which is the same on all ranks.
 *
 * Why delayed: the scale is one number for the *whole* tensor of a whole step, over all ranks and microbatches. MAX is
 * exact in any order, so the scale is the same in every layout. Replays and split weight gradients use the same scale,
 * because it is fixed during the step. A scale of the present tensor (current scaling) would depend on the microbatch's
 * size, and so would results.
 *
 * The first step has no amax. Its scales are 1 for x and W. For dy the scale is the global batch's number of tokens, by
 * which the mean has divided it. A tensor that was zero in all steps of the history has these scales, too.
 *
 * Stored where: this step's amax, 3 numbers per weight, in the comm arena; 3 scales per weight on the host, with the
 * history, which checkpoints keep. Activations: 1 byte for each number of a linear layer's input.
 * Sent when: GRAD_UNSCALE, one all-reduce (MAX) of the amax array over the mesh.
 *
 * What breaks: a maximum over only some ranks, because ranks then round differently, without any error. If an amax is
 * infinite, all ranks skip the step, as with fp16, and the history does not change.
 *
 * Recipes with block scales (lib/ops/block.h has the formats, lib/ops/fp8.h which blocks a product reads):
 *
 *   mxfp8        all operands in E4M3, 32 numbers a scale        mxfp8-e5m2   the same, gradients in E5M2
 *   mxfp4        all operands in E2M1, 32 numbers a scale        nvfp4        E2M1, 16 numbers a scale, 16 x 16 of W
 *
 * The scales are those of the present numbers, and yet the same in all layouts, because no block has numbers of two
 * ranks or microbatches. So mxfp8 and mxfp4 have no amax, no history and no exchange, and never skip a step. nvfp4 has
 * a second level, the scale of a tensor. NVIDIA takes the amax of the present tensor, which is a microbatch on a rank.
 * Here it is the delayed one, as for fp8, so that layouts agree. In 4 bits dy is rounded stochastically, because
 * rounding to nearest loses most small gradients, always in the same direction. The draws are those of the number's
 * place in the step. With fp8-hadamard a random Hadamard matrix multiplies the operands of dW, in 4 bits, along 16
 * tokens, as in NVIDIA's recipe: an outlier of one token is then spread over 16 numbers, and the product in exact
 * arithmetic is the same. The signs are draws of the seed. NVIDIA's recipe also keeps some layers in bf16; this one
 * does not. A CPU emulates all of them; cuBLASLt has all but mxfp4, from compute capability 10.0 on.
 *
 * Source: Micikevicius et al. 2022, "FP8 formats for deep learning"; NVIDIA TransformerEngine, DelayedScaling; for
 * blocks also Rouhani et al. 2023, "Microscaling data formats for deep learning", and the sources of block.h. */
#include "mixed_precision/fp8.h"

#include "lib/base/rng.h"
#include "lib/ops/fp8.h"
#include "lib/ops/linear.h"
#include "lib/run/run.h"
#include <float.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- options ---- */
#define AT(field) offsetof(struct fp8_options, field)
static const struct option OPTIONS[] = {
    {"fp8", OPTION_BOOL, "off", 0, 0, NULL, "",
     "linear layers multiply in fp8 (E4M3, gradients E5M2) with delayed scaling", "precision", AT(on)},
    {"fp8-recipe", OPTION_CHOICE, "delayed", 0, 0, "delayed|mxfp8|mxfp8-e5m2|mxfp4|nvfp4", "",
     "fp8: instead of that, a scale for each block of 32 numbers (mx) or 16, and 8 or 4 bits", "precision", AT(recipe)},
    {"fp8-block-scale", OPTION_CHOICE, "up", 0, 0, "up|down", "",
     "fp8: powers of two so large that no number saturates (NVIDIA), or the next below (OCP)", "precision",
     AT(block_scale)},
    {"fp8-stochastic", OPTION_BOOL, "on", 0, 0, NULL, "", "fp8: gradients in 4 bits are rounded up or down by chance",
     "precision", AT(stochastic)},
    {"fp8-hadamard", OPTION_BOOL, "off", 0, 0, NULL, "",
     "fp8: in 4 bits a random Hadamard matrix spreads outliers in the operands of weight gradients", "precision",
     AT(hadamard)},
    {"fp8-history", OPTION_INT, "16", 1, 4096, NULL, "steps",
     "fp8: a scale follows the largest amax of the last N steps", "precision", AT(history)},
    {"fp8-margin", OPTION_INT, "0", 0, 16, NULL, "", "fp8: scales leave room for numbers 2^N times the largest amax",
     "precision", AT(margin)},
};

static bool has_blocks(const struct plan *plan) { return fp8_options(plan)->recipe != FP8_DELAYED; }
static bool has_tensor_scales(const struct plan *plan) {
    return !has_blocks(plan) || fp8_options(plan)->recipe == FP8_NVFP4;
}
static const char *recipe_name(const struct plan *plan) {
    static const char *const names[] = {"delayed", "mxfp8", "mxfp8-e5m2", "mxfp4", "nvfp4"};
    return names[fp8_options(plan)->recipe];
}

static bool has_4_bits(const struct plan *plan) { return fp8_options(plan)->recipe >= FP8_MXFP4; }

static bool fp8_wanted(const struct plan *plan) {
    return fp8_options(plan)->on || has_blocks(plan) || fp8_options(plan)->hadamard;
}

static enum status fp8_check(const struct plan *plan) {
    if (fp8_options(plan)->hadamard && !has_4_bits(plan))
        return FAIL(E_CONFIG,
                    "fp8-hadamard=on spreads outliers in operands of 4 bits, and fp8-recipe=%s; use fp8-recipe nvfp4, "
                    "or fp8-hadamard off", recipe_name(plan));
    if (!fp8_options(plan)->on)
        return FAIL(E_CONFIG, "fp8-recipe=%s is a recipe of fp8, and fp8=off; use fp8 on, or fp8-recipe delayed",
                    recipe_name(plan));
    if (plan->device == PLAN_DEVICE_CUDA && plan->precision == PRECISION_FP64)
        return FAIL(E_CONFIG,
                    "fp8 on device=cuda sums in fp32, and precision=fp64; use precision bf16 or fp32, or device cpu, "
                    "which emulates it");
    if (plan->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG, "sums=fixed has no order for sums of fp8, and fp8=on; leave fp8 out, or use sums=fast");
    if (plan->precision == PRECISION_FP16)
        return FAIL(E_CONFIG, "fp8 has scales of its own, and precision=fp16 a loss scale; use precision bf16 or fp32");
    if (plan_is_asynchronous(plan))
        return FAIL(E_CONFIG,
                    "fp8 sets its scales between two steps, and asynchronous steps overlap; use %s, or leave fp8 out",
                    plan_synchronous_option(plan));
    return OK;
}

/* ---- rewrite: y = linear(x)  ->  x.fp8 = cast_fp8(x); y = linear_fp8(x.fp8) ---- */
static int number_of(int weight) { return N_FP8_TENSORS * weight; }

/* If x is dropped after forward, its code is, too: casting again is cheaper than keeping the code. */
static int add_code_slot(struct program *p, const char *block, int x, const char *what) {
    char name[NAME_MAX_LEN];
    const char *dot = strchr(p->slots[x].name, '.');
    snprintf(name, sizeof name, "%.30s.%s", dot ? dot + 1 : p->slots[x].name, what);
    int code = program_add_slot(p, block, name);
    p->slots[code].replay = p->slots[x].replay;
    return code;
}

static void cast_to_fp8(struct program *p, int at) {
    struct step *linear = &p->steps[at];
    int x = linear->in[0], block = linear->block, code = add_code_slot(p, p->blocks[block].name, x, "fp8");
    linear->op = &op_linear_fp8;
    linear->in[0] = code;
    linear->fp8 = (struct fp8_rule){.first = number_of(linear->weight[0])};
    struct step cast = {.op = &op_cast_fp8, .n_in = 1, .n_out = 1, .in = {x}, .out = {code}, .block = block, .parts = 1,
                        .fp8 = linear->fp8};
    program_insert(p, at, &cast);
}

/* ---- the same by blocks: c, s = cast_blocks(x); y = linear_blocks(x, c, s) ---- */
static struct block_rule rule_of(const struct plan *plan, const struct program *p, int weight) {
    const struct fp8_options *o = fp8_options(plan);
    bool nv = o->recipe == FP8_NVFP4, bits4 = has_4_bits(plan);
    struct block_rule r = {.scales = {.first = number_of(weight)}, .square = nv, .stochastic = bits4 && o->stochastic,
                           .hadamard = o->hadamard, .stream = rng_stream(p->params[weight].name)};
    r.operand.element = bits4 ? FP4_E2M1 : FP8_E4M3;
    r.operand.size = nv ? 16 : 32;
    r.operand.scale = nv ? BLOCK_SCALE_E4M3 : o->block_scale == FP8_SCALE_UP ? BLOCK_SCALE_UP : BLOCK_SCALE_DOWN;
    r.gradient = r.operand;
    if (o->recipe == FP8_MXFP8_E5M2) r.gradient.element = FP8_E5M2;
    return r;
}

static void cast_to_blocks(const struct plan *plan, struct program *p, int at) {
    int x = p->steps[at].in[0], block = p->steps[at].block;
    const char *name = p->blocks[block].name;
    int code = add_code_slot(p, name, x, "code"), scale = add_code_slot(p, name, x, "scale");
    struct step *linear = &p->steps[at];
    linear->op = &op_linear_blocks;
    linear->n_in = 3, linear->in[1] = code, linear->in[2] = scale;
    linear->blocks = rule_of(plan, p, linear->weight[0]);
    struct step cast = {.op = &op_cast_blocks, .n_in = 1, .n_out = 2, .in = {x}, .out = {code, scale}, .block = block,
                        .parts = 1, .blocks = linear->blocks};
    program_insert(p, at, &cast);
}

static enum status fp8_rewrite(const struct plan *plan, struct program *p) {
    for (int i = p->n_steps - 1; i >= 0; i--) {
        if (p->steps[i].op != &op_linear || !p->blocks[p->steps[i].block].is_layer) continue;
        if (has_blocks(plan)) cast_to_blocks(plan, p, i);
        else cast_to_fp8(p, i);
    }
    return OK;
}

/* ---- exchange and memory ---- */
static int n_tensors(const struct program *p) { return number_of(p->n_params); }
static int64_t array_bytes(const struct program *p) {
    return arena_align(n_tensors(p) * (int64_t)sizeof(double));
}

/* The most that fp8_save writes, without blanks. A number has up to 23 characters, 1.7976931348623157e+308. */
enum { NUMBER_TEXT = 24, LIST_TEXT = 3, WEIGHT_TEXT = 8, FRAME_TEXT = 64 };
static int64_t text_bytes(const struct program *p, int64_t history) {
    int64_t n = FRAME_TEXT;
    for (int i = 0; i < p->n_params; i++)
        n += (int64_t)strlen(p->params[i].name) + WEIGHT_TEXT + N_FP8_TENSORS * (history * NUMBER_TEXT + LIST_TEXT);
    return n;
}

static enum status fp8_cost(const struct plan *plan, const struct compiled *c, struct bill *bill) {
    if (!has_tensor_scales(plan)) return OK;
    if (c->schedule->validates)
        return FAIL(E_CONFIG,
                    "fp8 sets its scales between two steps, and with optim-sync=validate the next one has begun by "
                    "then; use optim-sync wait");
    bill->technique_comm_bytes += array_bytes(c->program);
    bill->technique_text_bytes += text_bytes(c->program, fp8_options(plan)->history);
    bill_exchange(bill, &c->program->place, (struct exchange){.axis = AXIS_MESH, .op = COMM_ALL_REDUCE, .dtype = FP64,
                                                              .count = n_tensors(c->program), .when = AT_END});
    return OK;
}

/* ---- scales ---- */
struct fp8 {
    const struct program *program;
    int n;                               /* tensors: number_of(params) */
    int history;                         /* steps */
    bool levels;                         /* nvfp4: scales of tensors whose blocks have scales, too */
    double margin, targets;              /* 2^margin; target tokens in the global batch */
    double *scale;                       /* [n], of this step */
    double *amax, *noted;                /* [n], of this step: this rank's, in device memory; all ranks', pinned */
    struct device_mark mark;             /* noted has arrived */
    double *past;                        /* [n][history] amax, the newest step first; 0: no step */
    int64_t n_skipped;                   /* steps skipped in a row */
};

/* The scale is rounded to a float, so that kernels in fp32 and in fp64 use the same number. */
static double scale_of(const struct fp8 *f, int i) {
    bool is_dy = i % N_FP8_TENSORS == FP8_DY;
    double most = 0, first = is_dy ? f->targets : 1;
    double largest = f->levels ? FP8_E4M3_MAX * FP4_E2M1_MAX : is_dy ? FP8_E5M2_MAX : FP8_E4M3_MAX;
    for (int h = 0; h < f->history; h++) most = fmax(most, f->past[i * f->history + h]);
    return most > 0 ? (double)(float)fmin(largest / (most * f->margin), FLT_MAX) : first;
}

static void set_scales(struct fp8 *f) {
    for (int i = 0; i < f->n; i++) f->scale[i] = scale_of(f, i);
}

static void roll_history(struct fp8 *f) {
    for (int i = 0; i < f->n; i++) {
        double *past = f->past + i * f->history;
        memmove(past + 1, past, (size_t)(f->history - 1) * sizeof *past);
        past[0] = f->noted[i];
    }
}

static bool any_infinite(const struct fp8 *f) {
    for (int i = 0; i < f->n; i++)
        if (!isfinite(f->noted[i])) return true;
    return false;
}

enum { PATIENCE = 4 };                   /* skipped steps in a row that end the run; one may be due to its batch */
static enum status refuse_to_skip_for_ever(const struct run *r) {
    return FAIL(E_NUMERIC,
                "fp8: activations or gradients are not finite at step %" PRId64 ", for the %dth time in a row; no "
                "weight was changed. Lower lr=%g, or look at the data",
                r->n_step + 1, PATIENCE, r->plan.lr);
}

/* Download the maxima over all ranks, and clear amax for the next step. */
static enum status read_amax(struct run *r, struct fp8 *f) {
    int64_t bytes = f->n * (int64_t)sizeof *f->amax;
    TRY(comm_all_reduce(r->mesh.group[AXIS_MESH], f->amax, f->n, FP64, COMM_MAX));
    TRY(r->device->download_start(r->device, f->noted, f->amax, bytes));
    TRY(r->device->mark_set(r->device, &f->mark));
    TRY(r->device->clear(r->device, f->amax, bytes));
    return run_wait(r, &f->mark, "the amax of fp8's tensors");
}

/* Every rank has the same maxima, so all ranks skip or none, and all set the same scales. */
static enum status agree_on_scales(struct run *r, void *self, const struct event *e) {
    (void)e;
    struct fp8 *f = self;
    TRY(read_amax(r, f));
    r->skipped = any_infinite(f);
    f->n_skipped = r->skipped ? f->n_skipped + 1 : 0;
    if (!r->skipped) roll_history(f);
    set_scales(f);
    return f->n_skipped >= PATIENCE ? refuse_to_skip_for_ever(r) : OK;
}

/* ---- attach ---- */
static void tell_steps(struct program *p, const struct fp8 *f) {
    for (int i = 0; i < p->n_steps; i++) {
        struct step *s = &p->steps[i];
        if (s->op->rule != RULE_FP8 && s->op->rule != RULE_BLOCKS) continue;
        s->fp8.scale = f->scale;
        s->fp8.amax = f->amax;
    }
}

/* cuBLASLt multiplies E2M1 with a scale in E4M3 for 16 numbers, and not with one in E8M0 for 32. */
static enum status supported(const struct run *r) {
    const enum fp8_recipe recipe = fp8_options(&r->plan)->recipe;
    if (r->device->kind == DEVICE_CUDA && recipe == FP8_MXFP4)
        return FAIL(E_CONFIG, "fp8-recipe=mxfp4 has no product on device=cuda: cuBLASLt has none of 4 bits with scales "
                    "that are powers of two; use fp8-recipe nvfp4 or mxfp8, or device cpu, which emulates it");
    return has_blocks(&r->plan) ? blocks_supported(r->device, recipe_name(&r->plan)) : fp8_supported(r->device);
}

static enum status fp8_attach(struct run *r, void **self) {
    const struct fp8_options *o = fp8_options(&r->plan);
    TRY(supported(r));
    if (!has_tensor_scales(&r->plan)) return OK;
    int n = n_tensors(&r->program);
    struct fp8 *f = *self = malloc(sizeof *f);
    if (!f) return FAIL(E_MEMORY, "no memory for fp8's state");
    *f = (struct fp8){.program = &r->program, .n = n, .history = (int)o->history, .levels = has_blocks(&r->plan),
                      .margin = ldexp(1, (int)o->margin),
                      .targets = (double)r->plan.global_batch * (double)model_targets(&r->plan),
                      .scale = calloc((size_t)n, sizeof *f->scale),
                      .past = calloc((size_t)n * (size_t)o->history, sizeof *f->past)};
    if (!f->scale || !f->past) return FAIL(E_MEMORY, "no memory for %d amax of %d steps", n, f->history);
    TRY(r->device->pin(r->device, n * (int64_t)sizeof *f->noted, (void **)&f->noted));
    TRY(run_take_comm(r, array_bytes(&r->program), (void **)&f->amax));
    TRY(r->device->clear(r->device, f->amax, array_bytes(&r->program)));
    set_scales(f);
    tell_steps(&r->program, f);
    r->may_skip = true;
    return run_subscribe(r, EVENT_GRAD_UNSCALE, agree_on_scales, f);
}

static void fp8_detach(struct run *r, void *self) {
    struct fp8 *f = self;
    if (!f) return;
    if (f->noted) r->device->unpin(r->device, f->noted);
    r->device->mark_fini(r->device, &f->mark);
    free(f->past);
    free(f->scale);
    free(f);
}

/* ---- checkpoints: {"skipped": 0, "amax": {"h0.qkv.w": [[of x, the newest first], [of W], [of dy]], ...}} ---- */
static json_t *row_json(const struct fp8 *f, int i) {
    json_t *row = json_array();
    for (int h = 0; h < f->history; h++) json_array_append_new(row, json_real(f->past[i * f->history + h]));
    return row;
}

static bool has_history(const struct fp8 *f, int weight) {
    for (int k = 0; k < N_FP8_TENSORS * f->history; k++)
        if (f->past[number_of(weight) * f->history + k] > 0) return true;
    return false;
}

static json_t *fp8_save(const void *self) {
    const struct fp8 *f = self;
    json_t *weights = json_object();
    for (int w = 0; w < f->program->n_params; w++) {
        if (!has_history(f, w)) continue;
        json_t *rows = json_array();
        for (int t = 0; t < N_FP8_TENSORS; t++) json_array_append_new(rows, row_json(f, number_of(w) + t));
        json_object_set_new(weights, f->program->params[w].name, rows);
    }
    return json_pack("{s:I, s:o}", "skipped", (json_int_t)f->n_skipped, "amax", weights);
}

/* Load as many steps as the row and this run's history have. false: an element is no amax. */
static bool load_row(const struct fp8 *f, const json_t *row, double *past) {
    if (!json_is_array(row)) return false;
    for (int h = 0; h < f->history && h < (int)json_array_size(row); h++) {
        const json_t *x = json_array_get(row, (size_t)h);
        past[h] = json_number_value(x);
        if (!json_is_number(x) || !(past[h] >= 0) || isinf(past[h])) return false;
    }
    return true;
}

static bool load_history(const struct fp8 *f, const json_t *weights, double *past) {
    for (int w = 0; w < f->program->n_params; w++) {
        const json_t *rows = json_object_get(weights, f->program->params[w].name);
        for (int t = 0; rows && t < N_FP8_TENSORS; t++)
            if (!load_row(f, json_array_get(rows, (size_t)t), past + (number_of(w) + t) * f->history)) return false;
    }
    return json_is_object(weights);
}

static enum status fp8_load(struct run *r, void *self, const json_t *from) {
    struct fp8 *f = self;
    const json_t *skipped = json_object_get(from, "skipped");
    double *past = calloc((size_t)f->n * (size_t)f->history, sizeof *past);
    (void)r;
    if (!past) return FAIL(E_MEMORY, "no memory for %d amax of %d steps", f->n, f->history);
    int64_t n_skipped = json_is_integer(skipped) ? (int64_t)json_integer_value(skipped) : -1;
    if (n_skipped < 0 || n_skipped >= PATIENCE || !load_history(f, json_object_get(from, "amax"), past)) {
        free(past);
        return FAIL(E_FORMAT, "the checkpoint's amax history of fp8 has three lists of numbers for each weight, and a "
                              "count below %d; this one does not", PATIENCE);
    }
    free(f->past);
    f->past = past;
    f->n_skipped = n_skipped;
    set_scales(f);
    return OK;
}

const struct technique technique_fp8 = {
    .name = "fp8", .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, sizeof(struct fp8_options)},
    .wanted = fp8_wanted, .check = fp8_check, .rewrite = fp8_rewrite, .cost = fp8_cost, .attach = fp8_attach,
    .detach = fp8_detach, .save = fp8_save, .load = fp8_load};
