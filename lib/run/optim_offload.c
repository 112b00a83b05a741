/* ZeRO-Offload's update: gradients come down, the host does AdamW on the states that it keeps, weights go up.
 *
 *   device   g  --download-->  host   m, v, w32 = AdamW(g)   w16 = round(w32)  --upload-->  device  w16
 *
 * Bytes over the bus a param and step: its own gradient down, its own weight up. The moments and the master copy never
 * move: that is the point. Both copies are staged in one pinned buffer, as large as the largest param needs, kept for
 * the run. With weights in host memory too (offload=params), nothing goes up here: zero/ uploads what a block needs.
 *
 * What breaks: the host must not read the gradient before the copy has come down. `download` waits, so here the device
 * idles while the host works; hiding that (a param's update behind the next one's copy) is left to do.
 *
 * Source: Ren et al. 2021, "ZeRO-Offload". */
#include "lib/run/optim_offload.h"

static int64_t grad_bytes(const struct param *w) {
    return arena_align(w->own_n * (int64_t)dtype_size(w->grad_type.dtype));
}
static int64_t weight_bytes(const struct param *w) {
    return arena_align(w->own_n * (int64_t)dtype_size(w->type.dtype));
}

/* The pinned buffer: room for the gradient and the weight of the largest param. */
static enum status staging(struct run *r) {
    int64_t most = 0;
    if (r->offload_staging) return OK;
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        int64_t bytes = grad_bytes(w) + weight_bytes(w);
        if (w->present && bytes > most) most = bytes;
    }
    return r->device->pin(r->device, most, &r->offload_staging);
}

enum status optim_offload_update(struct run *r, const struct adamw *a, const struct param *w) {
    const struct device *device = r->device;
    double multiplier;
    TRY(staging(r));
    char *grad = r->offload_staging, *weight = w->weight_tier == TIER_HOST ? param_own_weight(w) : grad + grad_bytes(w);
    int64_t bytes = w->own_n * (int64_t)dtype_size(w->type.dtype);
    TRY(device->download(device, &multiplier, a->grad_multiplier, sizeof multiplier));
    TRY(device->download(device, grad, param_own_grad(w), w->own_n * (int64_t)dtype_size(w->grad_type.dtype)));
    if (!w->master && w->weight_tier == TIER_DEVICE) TRY(device->download(device, weight, param_own_weight(w), bytes));
    struct adamw here = *a;
    here.grad_multiplier = &multiplier;
    const struct adamw_elements e = {w->own_n, weight, w->type.dtype, grad, w->grad_type.dtype, w->moment1, w->moment2,
                                     w->master_weight, w->decay};
    if (multiplier != multiplier) return OK;                         /* refused: `weight` was not filled by the
                                                                      * update */
    TRY(adamw_update(device_cpu(), &here, &e, 1));
    return w->weight_tier == TIER_HOST ? OK : device->upload(device, param_own_weight(w), weight, bytes);
}
