#include "lib/run/shadow.h"

/* One array of a param: where it is, and how long. */
struct original { void *at; int64_t bytes; enum tier tier; };

/* Of a file whole pages, which is what was planned. */
static int64_t kept_bytes(int64_t n, enum dtype dtype, enum tier tier) {
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    return tier == TIER_DISK ? round_up(bytes, DISK_PAGE) : bytes;
}

static struct original original_of(const struct param *w, enum shadow a) {
    void *const state[N_SHADOWS] = {NULL, w->moment1, w->moment2, w->master_weight};
    if (a == SHADOW_WEIGHT)
        return (struct original){param_own_weight(w), kept_bytes(w->own_n, w->type.dtype, w->weight_tier),
                                 w->weight_tier};
    int64_t bytes = state[a] ? kept_bytes(param_state_n(w), w->state_dtype, w->state_tier) : 0;
    return (struct original){state[a], bytes, w->state_tier};
}

static enum status copy_all(struct run *r, bool back) {
    for (int i = 0; i < r->program.n_params; i++) {
        const struct param *w = &r->program.params[i];
        for (enum shadow a = 0; param_is_stored(w) && a < N_SHADOWS; a++) {
            struct original o = original_of(w, a);
            const struct device *device = run_tier_device(r, o.tier);
            if (o.bytes) TRY(device->copy(device, back ? o.at : w->shadow[a], back ? w->shadow[a] : o.at, o.bytes));
        }
    }
    return OK;
}

enum status shadow_take(struct run *r) { return copy_all(r, false); }
enum status shadow_restore(struct run *r) { return copy_all(r, true); }
