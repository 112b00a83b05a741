/* The codecs of --grad-codec (lib/ops/codec.h). Techniques that sum gradients find here how to send them. */
#include "lib/run/plan.h"

#include <inttypes.h>

struct codec plan_codec(const struct plan *p) {
    return (struct codec){(enum codec_kind)grad_options(p)->codec, grad_options(p)->topk};
}

bool plan_has_feedback(const struct plan *p) {
    const struct grad_options *g = grad_options(p);
    return g->feedback == FEEDBACK_ON ||
           (g->feedback == FEEDBACK_AUTO && codec_wants_feedback((enum codec_kind)g->codec));
}

static enum status check_options(const struct plan *p) {
    const struct grad_options *g = grad_options(p);
    const char *codec = codec_name((enum codec_kind)g->codec);
    if (g->topk != 1 && g->codec != CODEC_TOPK)
        return FAIL(E_CONFIG, "topk=%g is for grad-codec=topk, not %s; leave topk out, or use grad-codec topk", g->topk,
                    codec);
    if (g->codec == CODEC_NONE && g->feedback != FEEDBACK_AUTO)
        return FAIL(E_CONFIG, "grad-feedback belongs to grad-codec, and grad-codec=none rounds nothing away; leave "
                              "grad-feedback out, or use grad-codec bf16, fp16, int8, sign or topk");
    return OK;
}

static enum status check_layout(const struct plan *p, const char *codec) {
    char sizes[128];
    if (p->mesh.dp * p->mesh.cp < 2)
        return FAIL(E_CONFIG,
                    "grad-codec=%s codes what replicas send each other, and dp=%" PRId64
                    "; use dp 2 or more, or grad-codec none", codec, p->mesh.dp);
    if (p->mesh.tp > 1 || p->mesh.ep > 1)
        return FAIL(E_CONFIG,
                    "grad-codec=%s would round a gradient that several ranks have differently on each, and the layout "
                    "is %s%s; use tp 1 and ep 1, or grad-codec none",
                    codec, mesh_sizes_text(&p->mesh, sizes, sizeof sizes), p->mesh.ep > 1 ? " with ep" : "");
    if (plan_is_asynchronous(p))
        return FAIL(E_CONFIG,
                    "grad-codec=%s codes the sums of steps, and asynchronous steps have none that end together; use "
                    "%s, or grad-codec none", codec, plan_synchronous_option(p));
    return OK;
}

enum status plan_check_codec(const struct plan *p) {
    const char *codec = codec_name((enum codec_kind)grad_options(p)->codec);
    TRY(check_options(p));
    if (grad_options(p)->codec == CODEC_NONE) return OK;
    TRY(check_layout(p, codec));
    if (p->precision == PRECISION_FP64 || p->precision == PRECISION_FP16)
        return FAIL(E_CONFIG,
                    "grad-codec=%s codes fp32 gradients, and precision=%s; use precision fp32 or bf16 with grad-fp32, "
                    "or grad-codec none", codec, dtype_name(plan_product_dtype(p)));
    if (p->device == PLAN_DEVICE_CUDA)
        return FAIL(E_CONFIG, "grad-codec=%s has no kernels for device=cuda; use device cpu, or grad-codec none",
                    codec);
    if (p->sums == PLAN_SUMS_FIXED)
        return FAIL(E_CONFIG,
                    "grad-codec=%s rounds what each of dp=%" PRId64 " ranks sends, so sums=fixed cannot have the bits "
                    "of every layout; use sums fast, or grad-codec none", codec, p->mesh.dp);
    return OK;
}
