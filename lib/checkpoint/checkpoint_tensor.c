#include "lib/checkpoint/checkpoint_tensor.h"

#include "lib/checkpoint/checkpoint_load.h"
#include <inttypes.h>
#include <stdlib.h>

struct checkpoint_reader { struct manifest manifest; struct checkpoint_model model; };

/* ---- opening ---- */

static enum status open_reader(struct checkpoint_reader *r, const char *path) {
    char step[CHECKPOINT_PATH_MAX];
    TRY(checkpoint_resolve(path, step));
    TRY(manifest_read(&r->manifest, step));
    TRY(checkpoint_model(step, &r->model));
    TRY(checkpoint_model_check(&r->model, r->manifest.path));
    TRY(manifest_check_shards(&r->manifest, 0, 1));
    return manifest_open_shards(&r->manifest);
}

enum status checkpoint_open(const char *path, struct checkpoint_reader **out) {
    *out = calloc(1, sizeof **out);
    if (!*out) return FAIL(E_MEMORY, "no memory to open %s", path);
    enum status status = open_reader(*out, path);
    if (status != OK) checkpoint_close(out);
    return status;
}

void checkpoint_close(struct checkpoint_reader **reader) {
    if (*reader) manifest_fini(&(*reader)->manifest);
    free(*reader);
    *reader = NULL;
}

const char *checkpoint_folder(const struct checkpoint_reader *r) { return r->manifest.folder; }
struct checkpoint_model checkpoint_model_of(const struct checkpoint_reader *r) { return r->model; }

/* ---- tensors ---- */

enum status checkpoint_weight_dtype(const struct checkpoint_reader *r, const char *param, enum dtype *out) {
    for (int i = 0; i < r->manifest.n; i++) {
        const struct safetensors_entry *e = safetensors_find(r->manifest.shards[i].file, param);
        if (e) *out = e->dtype;
        if (e) return OK;
    }
    return FAIL(E_FORMAT, "%s: no file has the weight %s; the checkpoint is not whole", r->manifest.path, param);
}

/* Check that the files have all wanted elements, before memory of that size is written. */
static enum status check_amount(const struct checkpoint_reader *r, const char *param, int64_t wanted) {
    int64_t n = 0;
    for (int i = 0; i < r->manifest.n; i++) {
        const struct safetensors_entry *e = safetensors_find(r->manifest.shards[i].file, param);
        if (e && e->dtype <= FP16) n += (e->end - e->begin) / (int64_t)dtype_size(e->dtype);
    }
    if (n == wanted) return OK;
    return FAIL(E_FORMAT,
                "%s: its files hold %" PRId64 " elements of %s, which has %" PRId64 "; the checkpoint is not whole",
                r->manifest.path, n, param, wanted);
}

enum status checkpoint_read_weight(const struct checkpoint_reader *r, const char *param, const struct shape *shape,
                                   enum dtype dtype, void *to) {
    struct piece whole = {.box = *shape};
    for (int i = 0; i < shape->n_axes; i++) whole.box.axis[i] = axis_whole(shape->axis[i].tag, shape->axis[i].global);
    whole.n = shape_n(&whole.box);
    TRY(check_amount(r, param, whole.n));
    return checkpoint_gather(&r->manifest, param, "", &whole, dtype, to);
}

enum status checkpoint_read_part(const struct checkpoint_reader *r, const char *param, const struct piece *piece,
                                 enum dtype dtype, void *to) {
    return checkpoint_gather(&r->manifest, param, "", piece, dtype, to);
}
