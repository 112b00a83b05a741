/* A token file: open, recognise by content, map. The kernel pages tokens in as they are read, so a file may be larger
 * than memory, and all ranks of a host share one copy. Sizes are checked here, once, before anything trusts them. */
#include "lib/data/data.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct data_file {
    char *path;
    const unsigned char *map; /* the whole file */
    int64_t map_bytes;
    const unsigned char *tokens; /* the first token, inside map */
    int64_t n_tokens;
    enum data_format format;
};

/* llm.c's header: 256 little-endian int32, of which three are used. Source: karpathy/llm.c, llmc/dataloader.h */
enum { LLMC_HEADER_BYTES = 256 * 4, LLMC_MAGIC_U16 = 20240520, LLMC_MAGIC_U32 = 20240801 };
struct llmc_header { int32_t magic, version, n_tokens; };

static const struct llmc_kind { int32_t magic, version; enum data_format format; } llmc_kinds[] = {
    {LLMC_MAGIC_U16, 1, DATA_LLMC_U16},
    {LLMC_MAGIC_U32, 7, DATA_LLMC_U32},
};

static int64_t token_bytes(enum data_format format) {
    switch (format) {
    case DATA_LLMC_U16: return 2;
    case DATA_LLMC_U32: return 4;
    default: return 1;
    }
}

/* Opening alone would accept a directory, and block on a pipe that nobody writes to. */
static enum status open_regular(const char *path, int *fd, int64_t *bytes) {
    struct stat info;
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (*fd < 0 || fstat(*fd, &info) != 0)
        return FAIL(E_DATA, "cannot open %s: %s; give --data a file that exists and can be read", path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return FAIL(E_DATA, "%s is a directory; give --data a file in it", path);
    if (!S_ISREG(info.st_mode))
        return FAIL(E_DATA, "%s is a pipe or a device, and samples come in random order; save it to a file first", path);
    if (info.st_size == 0)
        return FAIL(E_DATA, "%s is empty: 0 bytes, and one sample needs seq+1 tokens; give --data another file", path);
    *bytes = info.st_size;
    return OK;
}

static enum status map_file(struct data_file *f) {
    int fd = -1;
    enum status status = open_regular(f->path, &fd, &f->map_bytes);
    if (status == OK) {
        void *map = mmap(NULL, (size_t)f->map_bytes, PROT_READ, MAP_SHARED, fd, 0);
        if (map == MAP_FAILED)
            status = FAIL(E_DATA, "cannot map %s (%lld bytes): %s; copy it to a local disk", f->path,
                          (long long)f->map_bytes, strerror(errno));
        else f->map = map;
    }
    if (fd >= 0) close(fd); /* the mapping stays */
    return status;
}

static enum status check_llmc(const struct data_file *f, const struct llmc_kind *kind) {
    if (f->map_bytes < LLMC_HEADER_BYTES)
        return FAIL(E_FORMAT, "%s has llm.c's magic %d and is cut off: %lld bytes, its header alone is %d; copy or "
                    "tokenize it again", f->path, kind->magic, (long long)f->map_bytes, LLMC_HEADER_BYTES);
    struct llmc_header header;
    memcpy(&header, f->map, sizeof header);
    if (header.version != kind->version)
        return FAIL(E_FORMAT, "%s: llm.c data version %d, and of magic %d only version %d can be read; tokenize it again "
                    "with a current llm.c", f->path, header.version, kind->magic, kind->version);
    if (header.n_tokens < 1)
        return FAIL(E_FORMAT, "%s: the llm.c header says %d tokens, at least 1 is needed; tokenize it again", f->path,
                    header.n_tokens);
    int64_t expected = LLMC_HEADER_BYTES + header.n_tokens * token_bytes(kind->format);
    if (f->map_bytes != expected)
        return FAIL(E_FORMAT, "%s is %s: the llm.c header says %d tokens, which is %lld bytes, and the file has %lld; "
                    "copy or tokenize it again", f->path, f->map_bytes < expected ? "cut off" : "too long",
                    header.n_tokens, (long long)expected, (long long)f->map_bytes);
    return OK;
}

/* llm.c's magic numbers are not valid UTF-8, so no text is taken for one. */
static const struct llmc_kind *find_llmc(const struct data_file *f) {
    int32_t magic;
    if (f->map_bytes < (int64_t)sizeof magic) return NULL;
    memcpy(&magic, f->map, sizeof magic);
    for (size_t k = 0; k < sizeof llmc_kinds / sizeof *llmc_kinds; k++)
        if (llmc_kinds[k].magic == magic) return &llmc_kinds[k];
    return NULL;
}

static enum status recognise(struct data_file *f) {
    const struct llmc_kind *kind = find_llmc(f);
    if (kind) TRY(check_llmc(f, kind));
    int64_t header_bytes = kind ? LLMC_HEADER_BYTES : 0;
    f->format = kind ? kind->format : DATA_TEXT;
    f->tokens = f->map + header_bytes;
    f->n_tokens = (f->map_bytes - header_bytes) / token_bytes(f->format);
    return OK;
}

enum status data_open(const char *path, struct data_file **out) {
    enum status status = OK;
    struct data_file *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(path))) {
        status = FAIL(E_MEMORY, "no memory to describe %s; close other programs", path);
        goto done;
    }
    TRY_DONE(map_file(f));
    TRY_DONE(recognise(f));
done:
    if (status != OK) data_close(&f);
    *out = f;
    return status;
}

void data_close(struct data_file **file) {
    struct data_file *f = *file;
    *file = NULL;
    if (!f) return;
    if (f->map) munmap((void *)f->map, (size_t)f->map_bytes);
    free(f->path);
    free(f);
}

int64_t data_n_tokens(const struct data_file *f) { return f->n_tokens; }
enum data_format data_format_of(const struct data_file *f) { return f->format; }
const char *data_path(const struct data_file *f) { return f->path; }
int64_t data_vocab(const struct data_file *f) { return f->format == DATA_TEXT ? 256 : 0; }

int32_t data_token(const struct data_file *f, int64_t i) {
    switch (f->format) {
    case DATA_LLMC_U16: return ((const uint16_t *)(const void *)f->tokens)[i];
    case DATA_LLMC_U32: return (int32_t)((const uint32_t *)(const void *)f->tokens)[i];
    default: return f->tokens[i];
    }
}
