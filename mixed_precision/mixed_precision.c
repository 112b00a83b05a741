/* Mixed precision.
 *
 * Idea: matrix products in 16 bits are faster and move half the bytes. For activations and gradients 8 (bf16) or 11
 * (fp16) bits of significand are enough: their errors are small, random, and average out. There are two exceptions:
 *
 * 1. The precision of weights. A step changes a weight by about lr = 1e-4 of itself. Half a unit in the last place of
 *    bf16 is at least 2^-9 = 2e-3 of w (fp16: 2^-12), so w + dw rounds back to w and the model does not learn. So
 *    AdamW updates a master copy in fp32, and the model computes with the rounded master:
 *        w16 = round(w32)
 *
 * 2. The range of fp16. Its smallest number is 2^-24 = 6e-8. Many gradients of activations are smaller and become zero.
 *    So the loss is multiplied by S. Backward is linear, so every gradient is S times as large and does not underflow:
 *        g16 = S g        norm = |g16| / S        w32 = AdamW(w32, clip g16 / S)
 *    1/S (run->unscale) is applied inside the norm and inside AdamW, in fp32 or better. Never in place: g16 / S in 16
 *    bits would underflow just as without a scale. Too large an S overflows to infinity: then the step is skipped.
 *    loss_scale.c chooses S. bf16 has fp32's range: S = 1.
 *
 * Stored where, bytes per parameter: weight 2 + gradient 2 (4 with grad-fp32) + optimizer 4 + 4 + 4 (moments, master)
 * = 16 (18); fp32 has 4 + 4 + 8 = 16. Activations take half. Statistics of layernorm, attention and the loss stay in
 * fp32; every op sums in fp32 and rounds once, when it stores.
 *
 * Sent when: one number per step, whether anything overflowed. All other traffic (gradient buckets, activations between
 * stages, partial sums of tp) halves, because it follows the tensors' types.
 *
 * What breaks: a skip that ranks do not agree on. An infinity may be in one rank's shard only. If that rank alone
 * skipped, weights would differ between ranks forever, without any error. So all ranks take the maximum over the mesh
 * (AXIS_MESH).
 *
 * Source: Micikevicius et al. 2018, "Mixed precision training"; Kalamkar et al. 2019 for bf16. */
#include "mixed_precision/mixed_precision.h"

#include "lib/run/run.h"
#include "mixed_precision/loss_scale.h"
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>

static bool is_16_bit(const struct plan *plan) {
    return plan->precision == PRECISION_BF16 || plan->precision == PRECISION_FP16;
}

#define AT(field) offsetof(struct mixed_precision_options, field)
static const struct option OPTIONS[] = {
    {"grad-fp32", OPTION_BOOL, "off", 0, 0, NULL, "", "bf16, fp16: accumulate (and reduce) gradients in fp32",
     "precision", AT(grad_fp32)},
    {"loss-scale", OPTION_REAL, "0", 0, 1e30, NULL, "", "fp16: a fixed loss scale; 0: dynamic", "precision", AT(scale)},
    {"loss-scale-init", OPTION_REAL, "4294967296", 1, 1e30, NULL, "", "dynamic loss scale: first value", "precision",
     AT(init)},
    {"loss-scale-window", OPTION_INT, "1000", 1, 1e15, NULL, "steps",
     "dynamic loss scale: doubled after N steps without overflow", "precision", AT(window)},
    {"loss-scale-hysteresis", OPTION_INT, "2", 1, 1e6, NULL, "steps",
     "dynamic loss scale: overflows before it is halved", "precision", AT(hysteresis)},
    {"loss-scale-min", OPTION_REAL, "1", 1e-30, 1e30, NULL, "", "dynamic loss scale: never below", "precision",
     AT(min)},
};

/* Also on if only a loss scale is given, so that check refuses it in other precisions than fp16. */
static bool mixed_precision_wanted(const struct plan *plan) {
    return is_16_bit(plan) || mixed_precision_options(plan)->scale != 0;
}

static enum status mixed_precision_check(const struct plan *plan) {
    const struct mixed_precision_options *o = mixed_precision_options(plan);
    if (o->scale != 0 && plan->precision != PRECISION_FP16)
        return FAIL(E_CONFIG,
                    "loss-scale=%g is for precision=fp16, which alone underflows; leave loss-scale out, or use "
                    "precision fp16",
                    o->scale);
    if (o->scale == 0 && o->init < o->min)
        return FAIL(E_CONFIG, "loss-scale-init=%g is below loss-scale-min=%g; raise the one or lower the other",
                    o->init, o->min);
    if (plan->sums == PLAN_SUMS_FIXED && !o->grad_fp32)
        return FAIL(E_CONFIG, "sums=fixed adds gradients in fp32, and grad-fp32=off; use grad-fp32, or sums=fast");
    if (plan_is_asynchronous(plan) && plan->precision == PRECISION_FP16 && o->scale == 0)
        return FAIL(E_CONFIG,
                    "a dynamic loss scale skips an update on all ranks at once, and asynchronous steps have no such "
                    "moment; use loss-scale 1024, or precision bf16");
    return OK;
}

/* ---- rewrite ---- */
static void set_param_dtypes(struct program *p, enum dtype compute, enum dtype gradient) {
    for (int i = 0; i < p->n_params; i++) {
        struct param *w = &p->params[i];
        if (w->precise) continue;
        w->type.dtype = compute;
        w->grad_type.dtype = gradient;
        w->state_dtype = FP32;
        w->master = true;
    }
}

/* The types of this rank's values follow from the params (program_infer). Values of a neighboring stage have no
 * producer on this rank. Set their types, so that sender and receiver agree on the number of bytes. */
static void set_boundary_dtypes(struct program *p, enum dtype compute) {
    for (int b = 0; b < p->n_blocks; b++) {
        const struct block *x = &p->blocks[b];
        for (int i = 0; i < MAX_STREAMS; i++) {
            if (x->in[i] >= 0) p->slots[x->in[i]].type.dtype = compute;
            if (x->out[i] >= 0) p->slots[x->out[i]].type.dtype = compute;
        }
    }
}

static enum status mixed_precision_rewrite(const struct plan *plan, struct program *p) {
    enum dtype compute = plan->precision == PRECISION_BF16 ? BF16 : FP16;
    set_param_dtypes(p, compute, mixed_precision_options(plan)->grad_fp32 ? FP32 : compute);
    set_boundary_dtypes(p, compute);
    return OK;
}

/* ---- fp16: detect overflow, agree, adjust the scale ---- */
static enum status refuse_to_skip_for_ever(const struct run *r, const struct loss_scale *s) {
    return FAIL(E_NUMERIC,
                "gradients overflow at step %" PRId64 ", for the %" PRId64 "th time in a row at loss scale %g, which "
                "may not go lower; no weight was changed. Lower lr=%g, lower %s=%g, or use precision=bf16",
                r->n_step + 1, s->n_stuck, s->scale, r->plan.lr,
                mixed_precision_options(&r->plan)->scale != 0 ? "loss-scale" : "loss-scale-min", s->min);
}

static enum status unscale_or_skip(struct run *r, void *self, const struct event *e) {
    (void)e;
    struct loss_scale *s = self;
    TRY(optim_non_finite(r, &r->skipped));
    r->unscale = 1 / r->exec.loss_scale;
    loss_scale_update(s, r->skipped);
    r->exec.loss_scale = s->scale;                                   /* for the next step's backward */
    return loss_scale_is_stuck(s) ? refuse_to_skip_for_ever(r, s) : OK;
}

static enum status mixed_precision_attach(struct run *r, void **self) {
    const struct mixed_precision_options *o = mixed_precision_options(&r->plan);
    if (r->plan.precision != PRECISION_FP16) return OK;
    struct loss_scale *s = malloc(sizeof *s);
    if (!s) return FAIL(E_MEMORY, "no memory for the loss scale");
    *self = s;
    if (o->scale != 0) loss_scale_init_fixed(s, o->scale, o->hysteresis);
    else loss_scale_init(s, o->init, o->min, o->window, o->hysteresis);
    r->exec.loss_scale = s->scale;
    r->may_skip = true;
    return run_subscribe(r, EVENT_GRAD_UNSCALE, unscale_or_skip, s);
}

/* ---- checkpoints ---- */
static json_t *mixed_precision_save(const void *self) {
    const struct loss_scale *s = self;
    return json_pack("{s:f, s:I, s:I, s:I}", "scale", s->scale, "n_clean", (json_int_t)s->n_clean, "credit",
                     (json_int_t)s->credit, "n_stuck", (json_int_t)s->n_stuck);
}

/* A count must be far from overflow, and not negative, because a negative credit would never halve the scale. */
static bool load_count(const json_t *from, const char *key, int64_t *out) {
    const json_t *x = json_object_get(from, key);
    *out = json_is_integer(x) ? (int64_t)json_integer_value(x) : -1;
    return *out >= 0 && *out <= INT64_MAX / 4;
}

static enum status mixed_precision_load(struct run *r, void *self, const json_t *from) {
    struct loss_scale *s = self, kept = *s;
    if (mixed_precision_options(&r->plan)->scale != 0) return OK; /* fixed: the plan's value */
    kept.scale = json_number_value(json_object_get(from, "scale"));  /* 0 if not a number */
    if (!(kept.scale > 0) || isinf(kept.scale) || !load_count(from, "n_clean", &kept.n_clean) ||
        !load_count(from, "credit", &kept.credit) || !load_count(from, "n_stuck", &kept.n_stuck))
        return FAIL(E_FORMAT, "the checkpoint's loss scale is not a positive number with three counts");
    *s = kept;
    r->exec.loss_scale = s->scale;
    return OK;
}

static void mixed_precision_detach(struct run *r, void *self) {
    (void)r;
    free(self);
}

/* The master and the optimizer's states are fp32. */
static void mixed_precision_state_bytes(const struct plan *plan, struct state_bytes *x) {
    const double n = 1 + plan_optimizer(plan)->n_states;
    if (is_16_bit(plan)) *x = (struct state_bytes){2, mixed_precision_options(plan)->grad_fp32 ? 4 : 2, 4 * n};
}

const struct technique technique_mixed_precision = {
    .name = "mixed_precision", .options = {OPTIONS, sizeof OPTIONS / sizeof *OPTIONS,
                                           sizeof(struct mixed_precision_options)},
    .wanted = mixed_precision_wanted, .check = mixed_precision_check,
    .state_bytes = mixed_precision_state_bytes, .rewrite = mixed_precision_rewrite,
    .attach = mixed_precision_attach, .detach = mixed_precision_detach,
    .save = mixed_precision_save, .load = mixed_precision_load};
