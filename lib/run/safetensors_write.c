#include "lib/run/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

struct safetensors_writer {
    char *path;
    int fd;
    int64_t written, total;              /* bytes of the file */
    XXH3_state_t *hash;
};

static enum status out(struct safetensors_writer *w, const void *from, int64_t bytes) {
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = write(w->fd, (const char *)from + done, (size_t)(bytes - done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return FAIL(E_IO, "writing %s at byte %" PRId64 ": %s", w->path, w->written + done, strerror(errno));
        done += n;
    }
    XXH3_64bits_update(w->hash, from, (size_t)bytes);
    w->written += bytes;
    return OK;
}

static json_t *row_of(struct safetensors_entry *e, int64_t *end) {
    json_t *shape = json_array();
    int64_t n = 1;
    for (int i = 0; i < e->n_axes; i++) {
        json_array_append_new(shape, json_integer(e->shape[i]));
        n *= e->shape[i];
    }
    e->begin = *end;
    e->end = *end += n * (int64_t)dtype_size(e->dtype);
    snprintf(e->dtype_name, sizeof e->dtype_name, "%s", safetensors_dtype_name(e->dtype));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", e->dtype_name, "shape", shape, "data_offsets", (json_int_t)e->begin, (json_int_t)e->end);
}

/* The header as text, filled up with blanks so that the tensors begin at a multiple of 8. */
static char *header_of(struct safetensors_entry *entries, int n, const struct safetensors_pair *metadata, int n_metadata, int64_t *data_bytes) {
    json_t *header = json_object(), *texts = n_metadata ? json_object() : NULL;
    for (int i = 0; i < n_metadata; i++) json_object_set_new(texts, metadata[i].key, json_string(metadata[i].text));
    if (texts) json_object_set_new(header, "__metadata__", texts);
    *data_bytes = 0;
    for (int i = 0; i < n; i++) json_object_set_new(header, entries[i].name, row_of(&entries[i], data_bytes));
    char *text = json_dumps(header, JSON_COMPACT);
    json_decref(header);
    size_t length = text ? strlen(text) : 0, padded = (length + 7) / 8 * 8;
    char *grown = text ? realloc(text, padded + 1) : NULL;
    if (!grown) {
        free(text);
        return NULL;
    }
    memset(grown + length, ' ', padded - length);
    grown[padded] = 0;
    return grown;
}

static enum status begin(struct safetensors_writer *w, const char *header, int64_t data_bytes) {
    uint64_t n = strlen(header);
    unsigned char prefix[8];
    for (int i = 0; i < 8; i++) prefix[i] = (unsigned char)(n >> 8 * i);
    if (n > SAFETENSORS_MAX_HEADER)
        return FAIL(E_IO, "the header of %s would have %" PRIu64 " bytes; the format's limit is %d", w->path, n, SAFETENSORS_MAX_HEADER);
    w->total = 8 + (int64_t)n + data_bytes;
    w->fd = open(w->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (w->fd < 0) return FAIL(E_IO, "cannot create %s: %s", w->path, strerror(errno));
    TRY(out(w, prefix, 8));
    return out(w, header, (int64_t)n);
}

enum status safetensors_create(const char *path, struct safetensors_entry *entries, int n, const struct safetensors_pair *metadata, int n_metadata,
                               struct safetensors_writer **result) {
    struct safetensors_writer *w = *result = calloc(1, sizeof *w);
    int64_t data_bytes;
    char *header = header_of(entries, n, metadata, n_metadata, &data_bytes);
    if (w) {
        w->fd = -1;
        w->path = strdup(path);
        w->hash = XXH3_createState();
    }
    enum status status = w && w->path && w->hash && header ? OK : FAIL(E_MEMORY, "no memory to write %s", path);
    if (status == OK) {
        XXH3_64bits_reset(w->hash);
        status = begin(w, header, data_bytes);
    }
    free(header);
    if (status != OK) safetensors_abandon(result);
    return status;
}

enum status safetensors_append(struct safetensors_writer *w, const void *from, int64_t bytes) {
    if (bytes > w->total - w->written)
        return FAIL(E_INTERNAL, "%s is %" PRId64 " bytes long; %" PRId64 " more would go beyond", w->path, w->total, bytes);
    return out(w, from, bytes);
}

enum status safetensors_finish(struct safetensors_writer **writer, int64_t *bytes, uint64_t *hash) {
    struct safetensors_writer *w = *writer;
    enum status status = OK;
    if (w->written != w->total) status = FAIL(E_INTERNAL, "%s has %" PRId64 " of its %" PRId64 " bytes", w->path, w->written, w->total);
    if (status == OK && fsync(w->fd) != 0) status = FAIL(E_IO, "flushing %s to the disk: %s", w->path, strerror(errno));
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) != 0 && status == OK) status = FAIL(E_IO, "closing %s: %s", w->path, strerror(errno));
    *bytes = w->written;
    *hash = XXH3_64bits_digest(w->hash);
    safetensors_abandon(writer);
    return status;
}

void safetensors_abandon(struct safetensors_writer **writer) {
    struct safetensors_writer *w = *writer;
    if (!w) return;
    if (w->fd >= 0) close(w->fd);
    if (w->hash) XXH3_freeState(w->hash);
    free(w->path);
    free(w);
    *writer = NULL;
}
