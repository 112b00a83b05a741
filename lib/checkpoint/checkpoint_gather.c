#include "lib/checkpoint/checkpoint_load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { READ_BYTES = 1 << 20 };

/* A tensor that is being assembled in host memory from the files that have parts of it. */
struct target {
    struct piece piece;
    enum dtype dtype;
    char *at;
    int64_t filled;
    const struct safetensors *file;
    const struct safetensors_entry *entry;
    void *buffer;
};

static enum status take(void *self, int64_t to_at, int64_t from_at, int64_t n) {
    struct target *t = self;
    int64_t size = (int64_t)dtype_size(t->entry->dtype), most = READ_BYTES / size;
    for (int64_t done = 0; done < n; done += most) {
        int64_t part = n - done < most ? n - done : most;
        TRY(safetensors_read(t->file, t->entry, (from_at + done) * size, part * size, t->buffer));
        dtype_convert(t->at + (to_at + done) * (int64_t)dtype_size(t->dtype), t->dtype, t->buffer, t->entry->dtype,
                      part);
    }
    t->filled += n;
    return OK;
}

static enum status take_from(const struct shard_file *s, const char *param, const char *array, struct target *t) {
    char name[CHECKPOINT_NAME_MAX];
    struct piece piece;
    const json_t *row = json_object_get(s->pieces, param);
    if (!row) return OK;
    snprintf(name, sizeof name, "%s%s", param, array);
    t->file = s->file;
    TRY(checkpoint_piece_find(row, s->file, s->name, name, &t->piece, &piece, &t->entry));
    return piece_common(&t->piece, &piece, take, t);
}

static enum status gather(const struct manifest *m, const char *param, const char *array, struct target *t) {
    for (int i = 0; i < m->n; i++) TRY(take_from(&m->shards[i], param, array, t));
    int64_t wanted = piece_real_n(&t->piece);
    if (t->filled != wanted)
        return FAIL(E_FORMAT,
                    "%s has %" PRId64 " of the %" PRId64
                    " elements of %s%s that are needed; the checkpoint is not whole",
                    m->path, t->filled, wanted, param, array);
    return dtype_all_finite(t->at, t->dtype, t->piece.n)
               ? OK
               : FAIL(E_FORMAT, "%s: %s%s has an element that is missing or not finite; use an earlier checkpoint",
                      m->path, param, array);
}

enum status checkpoint_gather(const struct manifest *m, const char *param, const char *array,
                              const struct piece *piece, enum dtype dtype, void *to) {
    struct target t = {.piece = *piece, .dtype = dtype, .at = to, .buffer = malloc(READ_BYTES)};
    if (!t.buffer) return FAIL(E_MEMORY, "no memory to read %s", param);
    /* fill with NaN, so that a missing part shows even where another file has a part twice */
    memset(to, 0xff, (size_t)piece_real_n(piece) * dtype_size(dtype));
    enum status status = gather(m, param, array, &t);
    free(t.buffer);
    return status;
}
