/* Initial values: element g of the global tensor is init_constant + init_std x normal(seed, name, g), whoever holds it. */
#include "lib/run/run.h"

#include "lib/base/rng.h"
#include <string.h>

static void initialise_weight(struct param *w, uint64_t seed) {
    uint64_t stream = rng_stream(w->name);
    int64_t first = w->weight_at == RESIDENT_OWN ? w->own_first : 0;
    int64_t n = w->weight_at == RESIDENT_OWN ? w->own_n : type_n(&w->type);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        int64_t global = shape_global_index(&w->type.shape, first + i);
        double normal = global >= 0 && w->init_std > 0 ? rng_normal(seed, stream, (uint64_t)global) : 0;
        double value = global >= 0 ? w->init_constant + w->init_std * normal : 0;   /* padding is zero and stays so */
        if (w->master) value = (double)(float)value;                 /* the weight is the master rounded, from the start */
        dtype_set(w->weight, w->type.dtype, i, value);
        if (!w->master) continue;
        int64_t own = first + i - w->own_first;
        if (own >= 0 && own < w->own_n) dtype_set(w->master_weight, w->state_dtype, own, value);
    }
}

/* Shards are of one size on every rank, so the last ones may end in padding, which is gathered along: zero. */
static void clear_padding(struct param *w) {
    int64_t held = param_resident_n(w, w->weight_at), used = w->weight_at == RESIDENT_OWN ? w->own_n : type_n(&w->type);
    size_t size = dtype_size(w->type.dtype), state_size = dtype_size(w->state_dtype);
    memset((char *)w->weight + (size_t)used * size, 0, (size_t)(held - used) * size);
    if (w->master) memset((char *)w->master_weight + (size_t)w->own_n * state_size, 0, (size_t)(param_state_n(w) - w->own_n) * state_size);
}

void params_initialise(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        struct param *w = &r->program.params[i];
        if (!w->present) continue;
        size_t state_bytes = (size_t)param_state_n(w) * dtype_size(w->state_dtype);
        initialise_weight(w, (uint64_t)r->plan.seed);
        clear_padding(w);
        memset(w->moment1, 0, state_bytes);
        memset(w->moment2, 0, state_bytes);
    }
}
