#include "lib/checkpoint/safetensors.h"

#include "lib/base/input.h"
#include "lib/base/json_file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct safetensors {
    char *path;
    int fd, n;                           /* fd -1: no file; the tensors' bytes come from `source` */
    safetensors_source *source;
    void *self;
    int64_t data_at, data_bytes;         /* in the file: begin of the tensors, and their size */
    struct safetensors_entry *entries;
    json_t *metadata;                    /* an object, or NULL */
};

/* ---- element types of the format ---- */

static const struct kind { const char *name; int bits; enum dtype dtype; } KINDS[] = {
    {"F64", 64, FP64},      {"F32", 32, FP32},      {"F16", 16, FP16},     {"BF16", 16, BF16},    {"I32", 32, INT32},
    {"U8", 8, UINT8},
    {"I64", 64, N_DTYPES},  {"U64", 64, N_DTYPES},  {"U32", 32, N_DTYPES}, {"I16", 16, N_DTYPES}, {"U16", 16, N_DTYPES},
    {"I8", 8, N_DTYPES}, {"BOOL", 8, N_DTYPES},  {"F8_E4M3", 8, N_DTYPES}, {"F8_E5M2", 8, N_DTYPES},
    {"F8_E4M3FNUZ", 8, N_DTYPES}, {"F8_E5M2FNUZ", 8, N_DTYPES}, {"F8_E8M0", 8, N_DTYPES}, {"F6_E2M3", 6, N_DTYPES},
    {"F6_E3M2", 6, N_DTYPES}, {"F4", 4, N_DTYPES}, {"C64", 64, N_DTYPES}};

static const struct kind *kind_named(const char *name) {
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (!strcmp(KINDS[i].name, name)) return &KINDS[i];
    return NULL;
}

const char *safetensors_dtype_name(enum dtype d) {
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (KINDS[i].dtype == d && d != N_DTYPES) return KINDS[i].name;
    return NULL;
}

/* ---- bytes ---- */

static enum status read_at(const struct safetensors *f, int64_t at, int64_t bytes, void *to) {
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(f->fd, (char *)to + done, (size_t)(bytes - done), (off_t)(at + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return FAIL(E_IO, "%s: reading at byte %" PRId64 ": %s", f->path, at + done, strerror(errno));
        if (n == 0)
            return FAIL(E_IO, "%s ends at byte %" PRId64 "; it was longer when it was opened", f->path, at + done);
        done += n;
    }
    return OK;
}

static enum status open_file(struct safetensors *f, int64_t *bytes) {
    struct stat info;
    f->fd = open(f->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f->fd < 0 || fstat(f->fd, &info) != 0)
        return FAIL(input_status(errno), "cannot open %s: %s", f->path, strerror(errno));
    if (!S_ISREG(info.st_mode)) return FAIL(E_DATA, "%s is not a regular file", f->path);
    *bytes = info.st_size;
    return OK;
}

/* ---- the header ---- */

static enum status check_header(const struct safetensors *f, const json_t *header, const json_error_t *why) {
    if (!header) return FAIL(E_FORMAT, "%s: its header is not JSON: %s at byte %d", f->path, why->text, why->position);
    return json_is_object(header) ? OK : FAIL(E_FORMAT, "%s: its header is not a JSON object", f->path);
}

static enum status check_count(const struct safetensors *f, const char *text, size_t n) {
    int64_t values = json_count_values(text, n);
    if (values <= SAFETENSORS_MAX_VALUES) return OK;
    return FAIL(E_FORMAT, "%s: its header of %zu bytes has %" PRId64 " values; the limit is %d; save it in several "
                "files", f->path, n, values, SAFETENSORS_MAX_VALUES);
}

static enum status read_header(struct safetensors *f, json_t **header) {
    unsigned char prefix[8];
    int64_t bytes = 0;
    uint64_t n = 0;
    TRY(open_file(f, &bytes));
    if (bytes < 8) return FAIL(E_FORMAT, "%s has %" PRId64 " bytes; a safetensors file has at least 8", f->path, bytes);
    TRY(read_at(f, 0, 8, prefix));
    for (int i = 7; i >= 0; i--) n = n << 8 | prefix[i];
    if (n > SAFETENSORS_MAX_HEADER || (int64_t)n > bytes - 8)
        return FAIL(E_FORMAT,
                    "%s says its header has %" PRIu64 " bytes; the limit is %d, and %" PRId64
                    " follow: it is no safetensors file, or truncated",
                    f->path, n, SAFETENSORS_MAX_HEADER, bytes - 8);
    f->data_at = 8 + (int64_t)n;
    f->data_bytes = bytes - f->data_at;
    char *text = malloc((size_t)n + 1);
    if (!text) return FAIL(E_MEMORY, "no memory for the header of %s, %" PRIu64 " bytes", f->path, n);
    enum status status = read_at(f, 8, (int64_t)n, text);
    json_error_t why;
    if (status == OK) status = check_count(f, text, (size_t)n);
    if (status == OK) *header = json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, &why);
    free(text);
    return status == OK ? check_header(f, *header, &why) : status;
}

/* Read a whole number that is not negative into *out. */
static bool whole(const json_t *x, int64_t *out) {
    *out = json_is_integer(x) ? (int64_t)json_integer_value(x) : -1;
    return *out >= 0;
}

static enum status read_shape(const struct safetensors *f, const json_t *shape, struct safetensors_entry *e,
                              int64_t *n) {
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_AXES)
        return FAIL(E_FORMAT, "%s: tensor %s has no shape of at most %d axes", f->path, e->name, SAFETENSORS_MAX_AXES);
    *n = 1;
    for (size_t i = 0; i < json_array_size(shape); i++) {
        int64_t size;
        if (!whole(json_array_get(shape, i), &size) || __builtin_mul_overflow(*n, size, n))
            return FAIL(E_FORMAT, "%s: axis %zu of tensor %s is not a size, or too large", f->path, i, e->name);
        e->shape[e->n_axes++] = size;
    }
    return OK;
}

static enum status read_entry(const struct safetensors *f, const char *name, const json_t *row,
                              struct safetensors_entry *e) {
    e->name = strdup(name);
    if (!e->name) return FAIL(E_MEMORY, "no memory for the names in %s", f->path);
    const char *dtype = json_string_value(json_object_get(row, "dtype"));
    const struct kind *kind = dtype ? kind_named(dtype) : NULL;
    if (!kind)
        return FAIL(E_FORMAT, "%s: tensor %.64s has dtype %.16s, which the format does not know", f->path, name,
                    dtype ? dtype : "none");
    snprintf(e->dtype_name, sizeof e->dtype_name, "%s", kind->name);
    e->dtype = kind->dtype;
    int64_t n = 0, bits = 0;
    TRY(read_shape(f, json_object_get(row, "shape"), e, &n));
    const json_t *offsets = json_object_get(row, "data_offsets");
    if (json_array_size(offsets) != 2 || !whole(json_array_get(offsets, 0), &e->begin) ||
        !whole(json_array_get(offsets, 1), &e->end))
        return FAIL(E_FORMAT, "%s: tensor %.64s has no data_offsets", f->path, name);
    if (__builtin_mul_overflow(n, kind->bits, &bits) || bits % 8 || e->end - e->begin != bits / 8 ||
        e->end > f->data_bytes)
        return FAIL(E_FORMAT,
                    "%s: tensor %.64s has %" PRId64 " elements of %s and bytes %" PRId64 " to %" PRId64 " of %" PRId64
                    "; the file is damaged or truncated",
                    f->path, name, n, kind->name, e->begin, e->end, f->data_bytes);
    return OK;
}

static int by_place(const void *a, const void *b) {
    const struct safetensors_entry *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

/* Check that each tensor begins where the one before ended: no overlap, no hole. */
static enum status check_places(struct safetensors *f) {
    int64_t end = 0;
    qsort(f->entries, (size_t)f->n, sizeof *f->entries, by_place);
    for (int i = 0; i < f->n; end = f->entries[i++].end)
        if (f->entries[i].begin != end)
            return FAIL(E_FORMAT,
                        "%s: tensor %.64s begins at byte %" PRId64 ", and the one before ends at %" PRId64 ": %s",
                        f->path, f->entries[i].name, f->entries[i].begin, end,
                        f->entries[i].begin < end ? "they overlap" : "there is a hole");
    if (end != f->data_bytes && !f->source)
        return FAIL(E_FORMAT, "%s: its tensors end at byte %" PRId64 " of %" PRId64 "; something is appended", f->path,
                    end, f->data_bytes);
    return OK;
}

static enum status read_metadata(struct safetensors *f, json_t *row) {
    const char *key;
    json_t *text;
    if (json_is_null(row)) return OK;
    if (!json_is_object(row)) return FAIL(E_FORMAT, "%s: its __metadata__ are no object of texts", f->path);
    json_object_foreach(row, key, text)
        if (!json_is_string(text)) return FAIL(E_FORMAT, "%s: %.64s of its __metadata__ is no text", f->path, key);
    f->metadata = json_incref(row);
    return OK;
}

static enum status read_entries(struct safetensors *f, json_t *header) {
    const char *name;
    json_t *row;
    f->entries = calloc(json_object_size(header) + 1, sizeof *f->entries);
    if (!f->entries) return FAIL(E_MEMORY, "no memory for the %zu tensors of %s", json_object_size(header), f->path);
    json_object_foreach(header, name, row) {
        if (!strcmp(name, "__metadata__")) TRY(read_metadata(f, row));
        else TRY(read_entry(f, name, row, &f->entries[f->n++]));
    }
    return check_places(f);
}

static enum status new_safetensors(const char *path, struct safetensors **out) {
    struct safetensors *f = *out = calloc(1, sizeof *f);
    if (f) f->fd = -1;
    if (f && (f->path = strdup(path))) return OK;
    safetensors_close(out);
    return FAIL(E_MEMORY, "no memory to open %s", path);
}

enum status safetensors_open(const char *path, struct safetensors **out) {
    json_t *header = NULL;
    TRY(new_safetensors(path, out));
    enum status status = read_header(*out, &header);
    if (status == OK) status = read_entries(*out, header);
    json_decref(header);
    if (status != OK) safetensors_close(out);
    return status;
}

enum status safetensors_open_header(const char *label, const char *text, safetensors_source *source, void *self,
                                    struct safetensors **out) {
    json_error_t why;
    TRY(new_safetensors(label, out));
    struct safetensors *f = *out;
    f->source = source;
    f->self = self;
    f->data_bytes = INT64_MAX;
    json_t *header = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    enum status status = check_header(f, header, &why);
    if (status == OK) status = read_entries(f, header);
    json_decref(header);
    if (status != OK) safetensors_close(out);
    return status;
}

void safetensors_close(struct safetensors **file) {
    struct safetensors *f = *file;
    if (!f) return;
    for (int i = 0; i < f->n; i++) free(f->entries[i].name);
    free(f->entries);
    json_decref(f->metadata);
    if (f->fd >= 0) close(f->fd);
    free(f->path);
    free(f);
    *file = NULL;
}

/* ---- asking ---- */

int safetensors_n(const struct safetensors *f) { return f->n; }
const struct safetensors_entry *safetensors_at(const struct safetensors *f, int i) { return &f->entries[i]; }

const struct safetensors_entry *safetensors_find(const struct safetensors *f, const char *name) {
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->entries[i].name, name)) return &f->entries[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *f, const char *key) {
    return json_string_value(json_object_get(f->metadata, key));
}

enum status safetensors_read(const struct safetensors *f, const struct safetensors_entry *e, int64_t from,
                             int64_t bytes, void *to) {
    if (from < 0 || bytes < 0 || from > e->end - e->begin - bytes)
        return FAIL(E_INTERNAL, "%" PRId64 " bytes from byte %" PRId64 " of tensor %s, which has %" PRId64, bytes, from,
                    e->name, e->end - e->begin);
    if (f->source) return f->source(f->self, e, from, bytes, to);
    return read_at(f, f->data_at + e->begin + from, bytes, to);
}
