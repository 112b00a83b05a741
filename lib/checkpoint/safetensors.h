/* safetensors: named tensors in one file. Reading the file runs no code from it.
 *
 *   8 bytes    n, the header's length, little-endian
 *   n bytes    JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ..., "__metadata__":
 *              {"key": "text"}}
 *   the rest   the tensors' bytes, row-major, little-endian; offsets count from here
 *
 * A file may be hostile. Before the reader uses a number of it, it checks that the header is inside the file and, as
 * the format demands, at most 100 MB. The header has at most SAFETENSORS_MAX_VALUES values, because each takes some 100
 * bytes of memory on each rank. Names appear once, and metadata are texts. A shape's product does not overflow, and
 * times the element's bits is exactly end - begin. Tensors do not overlap and leave no holes, as the format demands;
 * the last one ends where the file ends. test_safetensors.c compares the reader with the Python package's
 * (version 0.8) on many odd files.
 *
 * Source: https://github.com/huggingface/safetensors (README, "Format"). */
#pragma once

#include "lib/base/status.h"
#include "lib/device/dtype.h"
#include <stdint.h>

enum { SAFETENSORS_MAX_AXES = 8, SAFETENSORS_MAX_HEADER = 100000000, SAFETENSORS_MAX_VALUES = 4 << 20 };

struct safetensors_entry {
    char *name;
    char dtype_name[16];                 /* the text in the file: "F32" */
    enum dtype dtype;                    /* N_DTYPES: Trivium does not compute with it (its size is checked) */
    int n_axes;
    int64_t shape[SAFETENSORS_MAX_AXES];
    int64_t begin, end;                  /* bytes, counted from the start of the first tensor */
};

/* ---- reading ---- */

struct safetensors;

/** Open the file, and make all checks above. The caller closes *out.
 *  @errors E_DATA: cannot be opened; E_FORMAT naming file, tensor, value and limit; E_MEMORY  @collective{none} */
enum status safetensors_open(const char *path, struct safetensors **out);
/** Open a header's text as if it were a file: each read gets the tensors' bytes from `source`. label: its name in
 *  messages. Checked like a file, except for the file's length. The caller closes *out.
 *  @errors E_FORMAT, E_MEMORY  @collective{none} */
typedef enum status safetensors_source(void *self, const struct safetensors_entry *, int64_t from, int64_t bytes,
                                       void *to);
enum status safetensors_open_header(const char *label, const char *header, safetensors_source *source, void *self,
                                    struct safetensors **out);
void safetensors_close(struct safetensors **);

/** The number of entries; entry i, in the order of their bytes. Borrowed. */
int safetensors_n(const struct safetensors *);
const struct safetensors_entry *safetensors_at(const struct safetensors *, int i);
/** By name, or NULL. */
const struct safetensors_entry *safetensors_find(const struct safetensors *, const char *name);
/** The value of a key of __metadata__, or NULL. Borrowed. */
const char *safetensors_metadata(const struct safetensors *, const char *key);

/** Read `bytes` bytes of a tensor, from its byte `from` on. @errors E_IO; E_INTERNAL: beyond its end 
 *  @collective{none} */
enum status safetensors_read(const struct safetensors *, const struct safetensors_entry *, int64_t from, int64_t bytes,
                             void *to);

/* ---- writing: all entries are known before the first byte ---- */

struct safetensors_writer;
struct safetensors_pair { const char *key, *text; };

/** @return only the header's text, which the caller frees; NULL: no memory. @collective{none} */
char *safetensors_header(struct safetensors_entry *entries, int n, const struct safetensors_pair *metadata,
                         int n_metadata);
/** Create `path` (which must not exist) and write the header. It sets the offsets entries[i].begin and .end, in the
 *  order of the entries; it reads only dtype, name, n_axes and shape. @errors E_IO with the system's reason; E_MEMORY
 *  @collective{none} */
enum status safetensors_create(const char *path, struct safetensors_entry *entries, int n,
                               const struct safetensors_pair *metadata, int n_metadata,
                               struct safetensors_writer **out);
/** Append the next bytes, of one or more tensors. @errors E_IO; E_INTERNAL: more than the entries have */
enum status safetensors_append(struct safetensors_writer *, const void *from, int64_t bytes);
/** Flush to the disk (fsync) and close. *bytes and *hash (XXH3, 64 bits) are of the whole file. *writer becomes NULL in
 *  any case.
 *  @errors E_IO; E_INTERNAL: bytes are missing */
enum status safetensors_finish(struct safetensors_writer **, int64_t *bytes, uint64_t *hash);
/** Close without finishing; the incomplete file stays. */
void safetensors_abandon(struct safetensors_writer **);

/** "F32" for FP32 and so on; NULL: the format has no such dtype. */
const char *safetensors_dtype_name(enum dtype);
