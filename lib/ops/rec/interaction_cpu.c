/* Two interactions: y = x and all vectors; y = x + the sum over features. See interaction.h. */
#include "lib/ops/cpu.h"
#include "lib/ops/rec/interaction.h"

kernel CPU(interaction_concat_forward), CPU(interaction_concat_backward_input);
kernel CPU(interaction_sum_forward), CPU(interaction_sum_backward_input);

/* Sizes: P B samples; the vectors of a sample are B D elements apart. */
struct sizes { int64_t samples, F, B, D, X, I; };
static struct sizes sizes_of(const struct call *call) {
    const struct axis *pooled = call->in[1].type->shape.axis;
    return (struct sizes){pooled[0].n * pooled[2].n, pooled[1].n, pooled[2].n, pooled[3].n,
                          call->in[0].type->shape.axis[2].n, call->out[0].type->shape.axis[2].n};
}
/* Index of feature f's vector of sample s in (P,F,B,D). */
static inline int64_t vector_at(const struct sizes *z, int64_t s, int64_t f) {
    return ((s / z->B * z->F + f) * z->B + s % z->B) * z->D;
}
enum status CPU(interaction_concat_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *pooled = call->in[1].data;
    const struct sizes z = sizes_of(call);
#pragma omp parallel for
    for (int64_t s = 0; s < z.samples; s++) {
        elem *y = (elem *)call->out[0].data + s * z.I;
        memcpy(y, x + s * z.X, (size_t)z.X * sizeof *y);
        for (int64_t f = 0; f < z.F; f++)
            memcpy(y + z.X + f * z.D, pooled + vector_at(&z, s, f), (size_t)z.D * sizeof *y);
    }
    return OK;
}

enum status CPU(interaction_concat_backward_input)(const struct call *call) {
    elem *dx = call->din[0].data, *dpooled = call->din[1].data;
    const struct sizes z = sizes_of(call);
#pragma omp parallel for
    for (int64_t s = 0; s < z.samples; s++) {
        const elem *dy = (const elem *)call->dout[0].data + s * z.I;
        for (int64_t k = 0; k < z.X; k++) put(dx + s * z.X + k, load(dy[k]), accumulates(call, 0));
        for (int64_t f = 0; f < z.F; f++)
            for (int64_t d = 0; d < z.D; d++)
                put(dpooled + vector_at(&z, s, f) + d, load(dy[z.X + f * z.D + d]), accumulates(call, 1));
    }
    return OK;
}

enum status CPU(interaction_sum_forward)(const struct call *call) {
    const elem *x = call->in[0].data, *pooled = call->in[1].data;
    elem *y = call->out[0].data;
    const struct sizes z = sizes_of(call);
    for (int64_t s = 0; s < z.samples; s++) {
        real sum = load(x[s]);
        for (int64_t f = 0; f < z.F; f++) sum += load(pooled[vector_at(&z, s, f)]);
        y[s] = store(sum);
    }
    return OK;
}

enum status CPU(interaction_sum_backward_input)(const struct call *call) {
    const elem *dy = call->dout[0].data;
    elem *dx = call->din[0].data, *dpooled = call->din[1].data;
    const struct sizes z = sizes_of(call);
    for (int64_t s = 0; s < z.samples; s++) {
        put(dx + s, load(dy[s]), accumulates(call, 0));
        for (int64_t f = 0; f < z.F; f++) put(dpooled + vector_at(&z, s, f), load(dy[s]), accumulates(call, 1));
    }
    return OK;
}
