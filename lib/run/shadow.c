#include "lib/run/run_state.h"

/* The names of the copies of arrays that an update changes; NULL for other arrays. The weight's copy has only the own
 * elements. */
static const char *const NAMES[N_FIXED_ARRAYS] = {
    [ARRAY_WEIGHT] = "weight before", [ARRAY_STATE] = "state1 before", [ARRAY_STATE + 1] = "state2 before",
    [ARRAY_MASTER] = "master before"};

static bool is_changed(const struct param *w, enum fixed_array i) {
    if (!param_is_stored(w) || !NAMES[i]) return false;
    bool kept = i == ARRAY_MASTER ? w->master : (int)i < ARRAY_STATE + w->optimizer->n_states;
    return i == ARRAY_WEIGHT || (param_is_dense(w) && kept);
}

enum status shadow_add(struct program *p) {
    for (int i = 0; i < p->n_params; i++) {
        const struct param *w = &p->params[i];
        struct param_array a = {.role = ROLE_OPTIM, .copies = 1, .place = BEHIND_PARAMS};
        for (enum fixed_array k = 0; k < N_FIXED_ARRAYS; k++) {
            bool weight = k == ARRAY_WEIGHT;
            if (!is_changed(w, k)) continue;
            a.name = NAMES[k], a.n = weight ? w->own_n : param_state_n(w);
            a.dtype = weight ? w->type.dtype : w->state_dtype, a.tier = weight ? w->weight_tier : w->state_tier;
            TRY(program_add_array(p, i, &a));
        }
    }
    return OK;
}

static enum status copy_all(struct run *r, bool back) {
    for (int i = 0; i < r->program.n_params; i++)
        for (enum fixed_array k = 0; k < N_FIXED_ARRAYS; k++) {
            const struct param *w = &r->program.params[i];
            if (!is_changed(w, k)) continue;
            const struct param_array *before = param_array(w, NAMES[k]);
            const struct device *device = run_tier_device(r, before->tier);
            void *now = k == ARRAY_WEIGHT ? param_own_weight(w) : w->arrays[k].at;
            int64_t bytes = param_array_bytes(before);
            if (before->tier == TIER_DISK) bytes = round_up(bytes, DISK_PAGE);       /* whole pages, as planned */
            if (bytes) TRY(device->copy(device, back ? now : before->at, back ? before->at : now, bytes));
        }
    return OK;
}

enum status shadow_take(struct run *r) { return copy_all(r, false); }
enum status shadow_restore(struct run *r) { return copy_all(r, true); }
