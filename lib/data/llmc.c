/* llm.c's .bin: a header of 256 little-endian int32, of which three are used, then the tokens.
 *
 *   magic     version  n_tokens  tokens
 *   20240520  1        n         u16 each
 *   20240801  7        n         u32 each
 *
 * Source: karpathy/llm.c, llmc/dataloader.h */
#include "lib/data/data_private.h"

#include "lib/data/llmc.h"
#include <string.h>

static const struct llmc_kind { int32_t magic,
                                version; enum data_format format; enum data_element element; } kinds[] = {
    {LLMC_MAGIC_U16, LLMC_VERSION_U16, DATA_LLMC_U16, DATA_U16},
    {LLMC_MAGIC_U32, LLMC_VERSION_U32, DATA_LLMC_U32, DATA_U32},
};

static enum status check(const struct data_map *f, const struct llmc_kind *kind, struct llmc_header *header) {
    if (f->bytes < LLMC_HEADER_BYTES)
        return FAIL(E_FORMAT, "%s has llm.c's magic %d and is truncated: %lld bytes, its header alone is %d; copy or "
                    "tokenize it again", f->path, kind->magic, (long long)f->bytes, LLMC_HEADER_BYTES);
    memcpy(header, f->at, sizeof *header);
    if (header->version != kind->version)
        return FAIL(E_FORMAT,
                    "%s: llm.c data version %d, and of magic %d only version %d can be read; tokenize it again "
                    "with a current llm.c",
                    f->path, header->version, kind->magic, kind->version);
    if (header->n_tokens < 1)
        return FAIL(E_FORMAT, "%s: the llm.c header says %d tokens, at least 1 is needed; tokenize it again", f->path,
                    header->n_tokens);
    int64_t expected = LLMC_HEADER_BYTES + (int64_t)header->n_tokens * data_element_bytes(kind->element);
    if (f->bytes != expected)
        return FAIL(E_FORMAT, "%s is %s: the llm.c header says %d tokens, which is %lld bytes, and the file has %lld; "
                    "copy or tokenize it again", f->path, f->bytes < expected ? "truncated" : "too long",
                    header->n_tokens, (long long)expected, (long long)f->bytes);
    return OK;
}

/* llm.c's magic numbers are not valid UTF-8, so no text is taken for one. */
static const struct llmc_kind *kind_of(const struct data_map *f) {
    int32_t magic;
    if (f->bytes < (int64_t)sizeof magic) return NULL;
    memcpy(&magic, f->at, sizeof magic);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (kinds[k].magic == magic) return &kinds[k];
    return NULL;
}

enum status llmc_read(struct data_file *f, const struct data_part *part, bool *mine) {
    const struct llmc_kind *kind = kind_of(&part->map);
    struct llmc_header header;
    *mine = kind != NULL;
    if (!kind) return OK;
    TRY(check(&part->map, kind, &header));
    f->format = kind->format;
    return data_add(f, part->map.at + LLMC_HEADER_BYTES, header.n_tokens, kind->element);
}
