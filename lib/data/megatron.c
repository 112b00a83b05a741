#include "lib/data/megatron.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const unsigned char megatron_magic[MEGATRON_MAGIC_BYTES] = {'M', 'M', 'I', 'D', 'I', 'D', 'X', 0, 0};

/* The mapped index. lengths, pointers and indices point into the map and are unaligned. */
struct index {
    struct data_map map;
    const char *bin_path;
    int64_t bin_bytes;
    enum data_element element;
    int64_t n_sequences, n_indices;
    const unsigned char *lengths, *pointers, *indices;
};

static const struct kind { const char *name; int element; } KINDS[] = {
    [1] = {"u8", DATA_U8},   [2] = {"i8", DATA_I8}, [3] = {"i16", DATA_I16}, [4] = {"i32", DATA_I32},
    [5] = {"i64", DATA_I64}, [6] = {"f64", -1},     [7] = {"f32", -1},       [8] = {"u16", DATA_U16},
};
enum { N_KINDS = sizeof KINDS / sizeof *KINDS };

int megatron_code(enum data_element element) {
    for (int code = 1; code < N_KINDS; code++)
        if (KINDS[code].element == (int)element) return code;
    return 0;
}

char *megatron_index_path(const char *bin_path) {
    size_t n = strlen(bin_path);
    if (n < 4 || strcmp(bin_path + n - 4, ".bin") != 0) return NULL;
    char *path = strdup(bin_path);
    if (path) memcpy(path + n - 4, ".idx", 4);
    return path;
}

static uint64_t u64_at(const unsigned char *at) {
    uint64_t x;
    memcpy(&x, at, sizeof x);
    return x;
}
static int64_t i64_at(const unsigned char *at, int64_t i) { return (int64_t)u64_at(at + 8 * i); }
static int32_t i32_at(const unsigned char *at, int64_t i) {
    int32_t x;
    memcpy(&x, at + 4 * i, sizeof x);
    return x;
}

static enum status read_element(struct index *x) {
    const char *path = x->map.path;
    int code = x->map.at[17];
    if (code < 1 || code >= N_KINDS)
        return FAIL(E_FORMAT, "%s: its tokens are of type %d, and Megatron's types are 1 to %d; write it again", path,
                    code, N_KINDS - 1);
    if (KINDS[code].element < 0)
        return FAIL(E_FORMAT, "%s: its elements are %s, and tokens are integers; give the data of a text model", path,
                    KINDS[code].name);
    x->element = (enum data_element)KINDS[code].element;
    return OK;
}

/* Check the counts by division first, so that no product overflows; then check the file's exact size. */
static enum status read_counts(struct index *x) {
    const char *path = x->map.path;
    int64_t rest = x->map.bytes - MEGATRON_HEADER_BYTES;
    uint64_t n = u64_at(x->map.at + 18), d = u64_at(x->map.at + 26);
    if (n < 1) return FAIL(E_FORMAT, "%s lists no sequences; at least 1 is needed: tokenize the text again", path);
    if (n > (uint64_t)rest / 12 || d > ((uint64_t)rest - 12 * n) / 8)
        return FAIL(E_FORMAT,
                    "%s is truncated: it says %" PRIu64 " sequences and %" PRIu64
                    " document indices, 12 and 8 bytes each, and has %" PRId64 " bytes after its header; copy it again",
                    path, n, d, rest);
    x->n_sequences = (int64_t)n;
    x->n_indices = (int64_t)d;
    int64_t expected = 12 * x->n_sequences + 8 * x->n_indices;
    if (rest != expected)
        return FAIL(E_FORMAT,
                    "%s is too long: %" PRIu64 " sequences and %" PRIu64 " document indices are %" PRId64
                    " bytes, and %" PRId64 " follow its header%s; copy it again",
                    path, n, d, expected, rest,
                    rest - expected == x->n_sequences ? " (as with data of several modes, which is not read)" : "");
    x->lengths = x->map.at + MEGATRON_HEADER_BYTES;
    x->pointers = x->lengths + 4 * x->n_sequences;
    x->indices = x->pointers + 8 * x->n_sequences;
    return OK;
}

static enum status read_header(struct index *x) {
    const char *path = x->map.path;
    if (x->map.bytes < MEGATRON_MAGIC_BYTES || memcmp(x->map.at, megatron_magic, MEGATRON_MAGIC_BYTES) != 0)
        return FAIL(E_FORMAT,
                    "%s lies next to %s and is no Megatron index: it does not begin with MMIDIDX; move it away, or "
                    "write both again",
                    path, x->bin_path);
    if (x->map.bytes < MEGATRON_HEADER_BYTES)
        return FAIL(E_FORMAT, "%s is truncated: %" PRId64 " bytes, its header alone is %d; copy it again", path,
                    x->map.bytes, MEGATRON_HEADER_BYTES);
    uint64_t version = u64_at(x->map.at + MEGATRON_MAGIC_BYTES);
    if (version != MEGATRON_VERSION)
        return FAIL(E_FORMAT,
                    "%s: version %" PRIu64 " of Megatron's index, and only version %d can be read; write it again",
                    path, version, MEGATRON_VERSION);
    TRY(read_element(x));
    return read_counts(x);
}

static enum status check_documents(const struct index *x) {
    for (int64_t i = 0, before = 0; i < x->n_indices; before = i64_at(x->indices, i++)) {
        int64_t end = i64_at(x->indices, i);
        if (end < before || end > x->n_sequences || (i == 0 && end != 0))
            return FAIL(E_FORMAT,
                        "%s: document index %" PRId64 " is %" PRId64 ", after %" PRId64
                        "; they begin with 0, never fall, and there are %" PRId64 " sequences: write it again",
                        x->map.path, i, end, before, x->n_sequences);
    }
    return OK;
}

static enum status add_sequence(struct data_file *f, const struct data_part *part, const struct index *x, int64_t i) {
    int64_t n = i32_at(x->lengths, i), at = i64_at(x->pointers, i), bytes = data_element_bytes(x->element);
    if (n < 0)
        return FAIL(E_FORMAT, "%s: sequence %" PRId64 " has %" PRId64 " tokens; write it again", x->map.path, i, n);
    if (at < 0 || at % bytes != 0 || at > x->bin_bytes || n > (x->bin_bytes - at) / bytes)
        return FAIL(E_FORMAT,
                    "%s: sequence %" PRId64 " is %" PRId64 " tokens of %" PRId64 " bytes from byte %" PRId64
                    ", and %s has %" PRId64
                    " bytes; the two do not belong together, or one is damaged: copy both again",
                    x->map.path, i, n, bytes, at, x->bin_path, x->bin_bytes);
    return n == 0 ? OK : data_add(f, part->map.at + at, n, x->element);
}

static enum status read_index(struct data_file *f, const struct data_part *part, struct index *x) {
    int64_t before = f->n_tokens;
    TRY(read_header(x));
    TRY(check_documents(x));
    for (int64_t i = 0; i < x->n_sequences; i++) TRY(add_sequence(f, part, x, i));
    if (f->n_tokens == before)
        return FAIL(E_FORMAT, "%s: all its sequences are empty; tokenize the text again", x->map.path);
    f->n_sequences += x->n_sequences;
    f->n_documents += x->n_indices > 0 ? x->n_indices - 1 : 0;
    return OK;
}

enum status megatron_read(struct data_file *f, const struct data_part *part, bool *mine) {
    struct index x = {.bin_path = part->map.path, .bin_bytes = part->map.bytes};
    char *path = megatron_index_path(part->map.path);
    *mine = path && access(path, F_OK) == 0;
    enum status status = OK;
    if (*mine) {
        f->format = DATA_MEGATRON;
        status = data_map(path, "--data", &x.map);
        if (status == OK) status = read_index(f, part, &x);
        data_unmap(&x.map);
    }
    free(path);
    return status;
}
