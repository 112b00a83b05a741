/* Initial values: element g of the global tensor is init_constant + init_std x normal(seed, name, g), on any rank.
 *
 * For one param after the other, the values of weight and master are computed in host memory and uploaded. */
#include "lib/run/run.h"

#include "lib/base/rng.h"
#include <inttypes.h>
#include <stdlib.h>

/* The initial values of a rank's part of a param, in host memory. They start as zeros, and padding stays zero. */
struct initial { char *weight, *master; int64_t weight_bytes, state_bytes; };

static enum status initial_new(const struct param *w, struct initial *v) {
    v->weight_bytes = param_resident_n(w, w->weight_residence) * (int64_t)dtype_size(w->type.dtype);
    v->state_bytes = param_state_n(w) * (int64_t)dtype_size(w->state_dtype);
    v->weight = calloc(1, (size_t)v->weight_bytes + 1);
    v->master = calloc(1, (size_t)v->state_bytes + 1);
    return v->weight && v->master ? OK
                                  : FAIL(E_MEMORY, "no %" PRId64 " bytes of host memory for the initial values of %s",
                                         v->weight_bytes + v->state_bytes, w->name);
}

/* All threads draw, because a number takes three calls of libm. */
static void draw(const struct param *w, uint64_t seed, const struct initial *v) {
    uint64_t stream = rng_stream(w->name);
    int64_t first = w->weight_residence == RESIDENT_OWN ? w->own_first : 0;
    int64_t n = w->weight_residence == RESIDENT_OWN ? w->own_n : type_n(&w->type);
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        int64_t global = shape_global_index(&w->type.shape, first + i);
        double normal = global >= 0 && w->init_std > 0 ? rng_normal(seed, stream, (uint64_t)global) : 0;
        double value = global >= 0 ? w->init_constant + w->init_std * normal : 0;
        if (w->master) value = (double)(float)value;                 /* the weight is the rounded master */
        dtype_set(v->weight, w->type.dtype, i, value);
        int64_t own = first + i - w->own_first;
        if (v->state_bytes && own >= 0 && own < w->own_n) dtype_set(v->master, w->state_dtype, own, value);
    }
}

/* Copy bytes to a tier; from NULL: write zeros. The padding of an array's last page in a file is also zero. */
static enum status put(const struct run *r, enum tier tier, void *to, const void *from, int64_t bytes) {
    const struct device *d = run_tier_device(r, tier);
    int64_t whole = tier == TIER_DISK ? round_up(bytes, DISK_PAGE) : bytes;
    if (!from) return d->clear(d, to, whole);
    TRY(d->clear(d, (char *)to + bytes, whole - bytes));
    return d->upload(d, to, from, bytes);
}

static enum status upload(const struct run *r, const struct param *w, const struct initial *v) {
    TRY(put(r, w->weight_tier, w->weight, v->weight, v->weight_bytes));
    if (w->master) TRY(put(r, w->state_tier, param_master(w), v->master, v->state_bytes));
    for (int i = ARRAY_STATE; i < ARRAY_MASTER; i++)
        if (w->arrays[i].copies) TRY(put(r, w->state_tier, w->arrays[i].at, NULL, v->state_bytes));
    return OK;
}

static enum status initialise(struct run *r, const struct param *w) {
    struct initial v = {0};
    enum status status = initial_new(w, &v);
    if (status == OK) {
        if (!r->plan.undrawn) draw(w, (uint64_t)r->plan.seed, &v);
        status = upload(r, w, &v);
    }
    free(v.weight);
    free(v.master);
    return status;
}

/* A table with a cache may be larger than host memory, so it is initialized in pieces of whole pages. */
static enum status initialise_table(struct run *r, const struct param *w) {
    enum { BLOCK = 1 << 20 };
    int64_t size = (int64_t)dtype_size(w->type.dtype);
    struct param part = *w;
    struct initial v = {.weight = calloc(BLOCK, (size_t)size)};
    enum status status = v.weight ? OK : FAIL(E_MEMORY, "no memory for initial values of %s", w->name);
    part.weight_residence = RESIDENT_OWN;
    for (part.own_first = 0; part.own_first < w->own_n && status == OK; part.own_first += part.own_n) {
        part.own_n = min64(BLOCK, w->own_n - part.own_first);
        if (!r->plan.undrawn) draw(&part, (uint64_t)r->plan.seed, &v);
        status = put(r, w->weight_tier, (char *)w->weight + part.own_first * size, v.weight, part.own_n * size);
    }
    free(v.weight);
    return status;
}

enum status params_initialise(struct run *r) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        if (param_is_stored(w)) TRY(param_array(w, HOT_ROWS) ? initialise_table(r, w) : initialise(r, w));
    }
    return OK;
}
