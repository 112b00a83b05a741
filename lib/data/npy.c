/* NumPy's .npy, the format of build-nanogpt's shards: a header that describes the array, then the elements.
 *
 *   "\x93NUMPY"  version (two bytes)  bytes of the text (u16; u32 from version 2 on)
 *   the text: a dictionary of Python,  {'descr': '<u2', 'fortran_order': False, 'shape': (100000000,), }
 *   the elements
 *
 * Source: numpy/lib/format.py, "Format Version 1.0" and on. */
#include "lib/data/data_private.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MAGIC[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
enum { FIXED_BYTES = 8, MOST_TEXT = 4096 };

struct header {
    char text[MOST_TEXT + 1];
    int64_t elements_at;
};

static enum status read_text(const struct data_map *map, struct header *h) {
    int major = map->bytes > FIXED_BYTES ? map->at[6] : 0, width = major > 1 ? 4 : 2;
    uint32_t bytes = 0;
    if (map->bytes < FIXED_BYTES + width)
        return FAIL(E_FORMAT,
                    "%s is truncated: %" PRId64 " bytes, the header of a .npy file alone has more; copy it "
                    "again",
                    map->path, map->bytes);
    if (major < 1 || major > 3)
        return FAIL(E_FORMAT, "%s: version %d of .npy, and 1 to 3 can be read; write it again with numpy.save",
                    map->path, major);
    memcpy(&bytes, map->at + FIXED_BYTES, (size_t)width);
    h->elements_at = FIXED_BYTES + width + (int64_t)bytes;
    if (bytes > MOST_TEXT || h->elements_at > map->bytes)
        return FAIL(E_FORMAT,
                    "%s: its .npy header says that it has %" PRIu32 " bytes, of at most %d, and the file has %" PRId64
                    "; copy it again",
                    map->path, bytes, MOST_TEXT, map->bytes);
    memcpy(h->text, map->at + FIXED_BYTES + width, bytes);
    h->text[bytes] = 0;
    return OK;
}

/* The text after 'key': in the dictionary; "" if the key is missing. */
static const char *value_of(const char *text, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s':", key);
    const char *at = strstr(text, quoted);
    return at ? at + strlen(quoted) + strspn(at + strlen(quoted), " ") : "";
}

static enum status element_of(const char *path, const char *text, enum data_element *out) {
    static const struct {
        const char *descr;
        enum data_element element;
    } kinds[] = {{"'|u1'", DATA_U8},  {"'|i1'", DATA_I8},  {"'<u2'", DATA_U16}, {"'<i2'", DATA_I16},
                 {"'<u4'", DATA_U32}, {"'<i4'", DATA_I32}, {"'<i8'", DATA_I64}};
    const char *descr = value_of(text, "descr");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        *out = kinds[i].element;
        if (!strncmp(descr, kinds[i].descr, 5)) return OK;
    }
    return FAIL(E_FORMAT,
                "%s: elements of type %.*s, and tokens are integers: u1, i1, u2, i2, u4, i4 or i8, "
                "little-endian; write it again with x.astype(\"<u2\") or \"<u4\"",
                path, (int)strcspn(descr, ","), descr);
}

/* Parse the shape "(N,)" of one axis. */
static enum status length_of(const char *path, const char *text, int64_t *n) {
    const char *shape = value_of(text, "shape");
    char *end = NULL;
    *n = shape[0] == '(' && shape[1] >= '0' && shape[1] <= '9' ? strtoll(shape + 1, &end, 10) : 0;
    if (*n > 0 && end && !strncmp(end, ",)", 2)) return OK;
    return FAIL(E_FORMAT,
                "%s: an array of shape %.*s, and tokens are one axis of 1 or more; write it again with "
                "x.reshape(-1)",
                path, (int)strcspn(shape, "}"), shape);
}

enum status npy_read(struct data_file *f, const struct data_part *part, bool *mine) {
    const struct data_map *map = &part->map;
    struct header h;
    enum data_element element;
    int64_t n;
    *mine = map->bytes >= (int64_t)sizeof MAGIC && !memcmp(map->at, MAGIC, sizeof MAGIC);
    if (!*mine) return OK;
    TRY(read_text(map, &h));
    TRY(element_of(map->path, h.text, &element));
    TRY(length_of(map->path, h.text, &n));
    int64_t room = map->bytes - h.elements_at, bytes = data_element_bytes(element);
    if (room % bytes || n != room / bytes)
        return FAIL(E_FORMAT,
                    "%s: its .npy header says %" PRId64 " elements of %" PRId64 " bytes, and %" PRId64
                    " bytes follow it; copy it again",
                    map->path, n, bytes, room);
    f->format = DATA_NPY;
    return data_add(f, map->at + h.elements_at, n, element);
}
