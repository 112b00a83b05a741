#include "lib/checkpoint/hf_files.h"

#include "lib/base/json_file.h"
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Files are created one after the other. first[i] is the first entry of file i, and first[n_files] is n. */
struct hf_writer {
    char path[CHECKPOINT_PATH_MAX];
    struct safetensors_entry *entries;       /* the caller's until finish */
    int n, n_files, file;                    /* file: index of the file that is being written */
    int *first;
    int64_t left;                            /* bytes that this file still lacks */
    struct safetensors_writer *writer;
    json_t *index;
};

static const char SUFFIX[] = ".safetensors";

static int64_t bytes_of(const struct safetensors_entry *e) {
    int64_t n = (int64_t)dtype_size(e->dtype);
    for (int a = 0; a < e->n_axes; a++) n *= e->shape[a];
    return n;
}

/* Put as many entries into each file as fit into the limit, but at least one. */
static void share_out(struct hf_writer *w, int64_t limit) {
    int64_t bytes = 0;
    for (int i = 0; i < w->n; i++) {
        int64_t more = bytes_of(&w->entries[i]);
        bool full = limit > 0 && bytes > 0 && bytes + more > limit;
        if (i == 0 || full) w->first[w->n_files++] = i, bytes = 0;
        bytes += more;
    }
    w->first[w->n_files] = w->n;
}

/* Make the path of file i. @return its length */
static int path_of(const struct hf_writer *w, int i, char out[CHECKPOINT_PATH_MAX + 32]) {
    if (w->n_files == 1) return snprintf(out, CHECKPOINT_PATH_MAX, "%s", w->path);
    int stem = (int)(strlen(w->path) - strlen(SUFFIX));
    return snprintf(out, CHECKPOINT_PATH_MAX + 32, "%.*s-%05d-of-%05d%s", stem, w->path, i + 1, w->n_files, SUFFIX);
}

static enum status begin_file(struct hf_writer *w, int i) {
    static const struct safetensors_pair METADATA[] = {{"format", "pt"}};
    char path[CHECKPOINT_PATH_MAX + 32];
    int first = w->first[i], n = w->first[i + 1] - first;
    path_of(w, i, path);
    w->file = i;
    w->left = 0;
    for (int k = first; k < first + n; k++) w->left += bytes_of(&w->entries[k]);
    TRY(safetensors_create(path, w->entries + first, n, METADATA, 1, &w->writer));
    const char *slash = strrchr(path, '/');
    for (int k = first; k < first + n; k++)
        json_object_set_new(w->index, w->entries[k].name, json_string(slash ? slash + 1 : path));
    return OK;
}

static enum status begin(struct hf_writer *w, const char *path, int64_t shard_bytes) {
    size_t length = strlen(path), suffix = strlen(SUFFIX);
    if (length >= sizeof w->path)
        return FAIL(E_CONFIG, "a path of %zu bytes is too long; the limit is %zu", length, sizeof w->path - 1);
    memcpy(w->path, path, length + 1);
    share_out(w, shard_bytes);
    if (w->n_files > 1 && (length <= suffix || strcmp(path + length - suffix, SUFFIX)))
        return FAIL(E_CONFIG, "%s becomes %d files, whose names need one that ends in %s", path, w->n_files, SUFFIX);
    return begin_file(w, 0);
}

enum status hf_files_create(const char *path, struct safetensors_entry *entries, int n, int64_t shard_bytes,
                            struct hf_writer **out) {
    struct hf_writer *w = *out = calloc(1, sizeof *w);
    if (w) w->entries = entries, w->n = n, w->first = calloc((size_t)n + 1, sizeof *w->first), w->index = json_object();
    enum status status = w && w->first && w->index ? begin(w, path, shard_bytes)
                                                   : FAIL(E_MEMORY, "no memory to write %s", path);
    if (status != OK) hf_files_abandon(out);
    return status;
}

static enum status end_file(struct hf_writer *w) {
    int64_t bytes;
    uint64_t hash;
    return safetensors_finish(&w->writer, &bytes, &hash);
}

enum status hf_files_append(struct hf_writer *w, const void *from, int64_t bytes) {
    while (bytes > 0) {
        if (w->left == 0 && w->file + 1 < w->n_files) {
            TRY(end_file(w));
            TRY(begin_file(w, w->file + 1));
        }
        int64_t now = bytes < w->left || w->file + 1 == w->n_files ? bytes : w->left;
        TRY(safetensors_append(w->writer, from, now));
        from = (const char *)from + now, bytes -= now, w->left -= now;
    }
    return OK;
}

/* Write the index: {"metadata": {"total_size": bytes}, "weight_map": {name: file}} */
static enum status write_index(struct hf_writer *w) {
    char path[CHECKPOINT_PATH_MAX + 32];
    json_int_t total = 0;
    for (int i = 0; i < w->n; i++) total += bytes_of(&w->entries[i]);
    snprintf(path, sizeof path, "%s.index.json", w->path);
    json_t *index = json_pack("{s:{s:I}, s:O}", "metadata", "total_size", total, "weight_map", w->index);
    if (!index) return FAIL(E_MEMORY, "no memory to write %s", path);
    enum status status = json_file_write(path, index, JSON_INDENT(2) | JSON_SORT_KEYS);
    json_decref(index);
    return status;
}

static void forget(struct hf_writer **writer) {
    struct hf_writer *w = *writer;
    if (!w) return;
    safetensors_abandon(&w->writer);
    json_decref(w->index);
    free(w->first);
    free(w);
    *writer = NULL;
}

enum status hf_files_finish(struct hf_writer **writer) {
    struct hf_writer *w = *writer;
    enum status status = w->left > 0 || w->file + 1 < w->n_files
                             ? FAIL(E_INTERNAL, "%s: bytes of its tensors are missing", w->path)
                             : end_file(w);
    if (status == OK && w->n_files > 1) status = write_index(w);
    if (status != OK) hf_files_abandon(writer);
    else forget(writer);
    return status;
}

void hf_files_abandon(struct hf_writer **writer) {
    struct hf_writer *w = *writer;
    char path[CHECKPOINT_PATH_MAX + 32];
    for (int i = 0; w && w->writer && i <= w->file; i++) {
        path_of(w, i, path);
        unlink(path);
    }
    forget(writer);
}
