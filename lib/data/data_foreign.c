/* Formats that hold neither tokens nor text, recognized by a file's first or last bytes. The error names the format and
 * a remedy. */
#include "lib/data/data_private.h"
#include "lib/data/megatron.h"

#include <string.h>

enum { MOST_MAGIC = 16 };
/* what: the format's name. magic: n bytes at offset `at`; if `twice`, the file also ends with them. The remedy is
 * "before FILE after", or only `before` if `after` is NULL. */
static const struct foreign {
    const char *what;
    int at, n;
    const char magic[MOST_MAGIC + 1];
    bool twice;
    const char *before, *after;
} FOREIGN[] = {
    {"compressed by gzip", 0, 3, "\x1f\x8b\x08", false, "unpack it: zcat ", " > OUT"},
    {"compressed by bzip2", 4, 6, "1AY&SY", false, "unpack it: bzcat ", " > OUT"},
    {"compressed by xz", 0, 6, "\xfd\x37zXZ\0", false, "unpack it: xzcat ", " > OUT"},
    {"compressed by zstd", 0, 4, "\x28\xb5\x2f\xfd", false, "unpack it: zstdcat ", " > OUT"},
    {"compressed by lz4", 0, 4, "\x04\x22\x4d\x18", false, "unpack it: lz4cat ", " > OUT"},
    {"compressed by compress", 0, 3, "\x1f\x9d\x90", false, "unpack it: zcat ", " > OUT"},
    {"a zip archive (.zip, .npz, .pt, .docx)", 0, 4, "PK\3\4", false, "unpack it: unzip ", ""},
    {"a 7-Zip archive", 0, 6, "7z\xbc\xaf\x27\x1c", false, "unpack it: 7z x ", ""},
    {"a RAR archive", 0, 6, "Rar!\x1a\x07", false, "unpack it: unrar x ", ""},
    {"a tar archive", 257, 6, "ustar\0", false, "unpack it: tar xf ", ""},
    {"a tar archive", 257, 8, "ustar  \0", false, "unpack it: tar xf ", ""},
    {"a Parquet file", 0, 4, "PAR1", true, "write its column of text to a file, with pandas or pyarrow", NULL},
    {"an Arrow file", 0, 8, "ARROW1\0\0", false, "write its column of text to a file, with pyarrow or datasets", NULL},
    {"an Arrow file", 0, 5, "FEA1\0", false, "write its column of text to a file, with pandas or pyarrow", NULL},
    {"an HDF5 file", 0, 8, "\x89HDF\r\n\x1a\n", false, "write its tokens to a .npy file, with h5py and NumPy", NULL},
    {"an SQLite database", 0, 16, "SQLite format 3\0", false, "write its column of text to a file, with sqlite3", NULL},
    {"a PDF document", 0, 5, "%PDF-", false, "take its text out: pdftotext ", " OUT"},
    {"a GGUF model", 0, 8, "GGUF\2\0\0\0", false, "give a file of text or tokens", NULL},
    {"a GGUF model", 0, 8, "GGUF\3\0\0\0", false, "give a file of text or tokens", NULL},
    {"tokens of TinyLlama's packed dataset", 0, 9, "LITPKDS\1\0", false, "write them to a .npy file, with NumPy", NULL},
    {"fairseq's index of tokens", 0, 8, "TNTIDX\0\0", false, "give tokens in Megatron's or llm.c's format", NULL},
    {"the index of Megatron data, and no data itself", 0, MEGATRON_MAGIC_BYTES, "MMIDIDX\0\0", false,
     "give the .bin next to it", NULL},
};

static bool has(const struct data_map *map, int64_t at, const char *bytes, int n) {
    return at >= 0 && map->bytes - at >= n && !memcmp(map->at + at, bytes, (size_t)n);
}

static uint32_t u32_at(const struct data_map *map, int64_t at) {
    uint32_t x = 0;
    if (map->bytes - at >= 4) memcpy(&x, map->at + at, sizeof x);
    return x;
}

static enum status refuse(const struct data_map *map, const struct foreign *f) {
    return FAIL(E_FORMAT, "%s is %s; %s%s%s", map->path, f->what, f->before, f->after ? map->path : "",
                f->after ? f->after : "");
}

/* The format of the library `datasets`: a stream of messages. A message begins with the mark -1 and the size of its
 * header, a multiple of 8. */
static bool is_arrow_stream(const struct data_map *map) {
    uint32_t header = u32_at(map, 4);
    return u32_at(map, 0) == UINT32_MAX && header > 0 && header % 8 == 0 && header < map->bytes;
}

/* A safetensors file begins with the size of its header in 8 bytes, then the header, which is JSON. */
static bool is_safetensors(const struct data_map *map) {
    uint32_t header = u32_at(map, 0);
    return u32_at(map, 4) == 0 && header >= 2 && header < map->bytes && has(map, 8, "{\"", 2);
}

enum status data_foreign_refuse(const struct data_map *map) {
    static const struct foreign arrow = {.what = "an Arrow stream",
                                         .before = "write its column of text to a file, with datasets"},
                                tensors = {.what = "a safetensors file", .before = "give a file of text or tokens"};
    for (size_t i = 0; i < sizeof FOREIGN / sizeof *FOREIGN; i++) {
        const struct foreign *f = &FOREIGN[i];
        if (has(map, f->at, f->magic, f->n) && (!f->twice || has(map, map->bytes - f->n, f->magic, f->n)))
            return refuse(map, f);
    }
    if (is_arrow_stream(map)) return refuse(map, &arrow);
    return is_safetensors(map) ? refuse(map, &tensors) : OK;
}

enum status data_foreign_refuse_wide(const struct data_map *map) {
    bool wider = has(map, 0, "\xff\xfe\0\0", 4) || has(map, 0, "\0\0\xfe\xff", 4);
    bool wide = map->bytes % 2 == 0 && (has(map, 0, "\xff\xfe", 2) || has(map, 0, "\xfe\xff", 2));
    if (!wider && !wide) return OK;
    return FAIL(E_FORMAT, "%s is text in UTF-%d; make it UTF-8: iconv -f UTF-%d -t UTF-8 %s > OUT", map->path,
                wider ? 32 : 16, wider ? 32 : 16, map->path);
}
