/* llm.c's .bin: a header of 256 little-endian int32 (the first three are used), then the tokens.
 *
 *   magic     version  n_tokens  tokens
 *   20240520  1        n         u16 each
 *   20240801  7        n         u32 each
 *
 * llm.c's other files have the same header with other magic numbers; llmc_read refuses them by name.
 * Source: karpathy/llm.c, llmc/dataloader.h */
#include "lib/data/data_private.h"

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

/* The file's magic number; 0 if the file is shorter. llm.c's numbers are no valid UTF-8, so no text begins with one. */
static int32_t magic_of(const struct data_map *f) {
    int32_t magic = 0;
    if (f->bytes >= (int64_t)sizeof magic) memcpy(&magic, f->at, sizeof magic);
    return magic;
}

static const struct llmc_kind *kind_of(int32_t magic) {
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (kinds[k].magic == magic) return &kinds[k];
    return NULL;
}

static enum status refuse_other(const struct data_map *f, int32_t magic) {
    static const struct { int32_t magic; const char *what, *remedy; } others[] = {
        {20240326, "a model", "read it with trivium checkpoint import --from llmc"},
        {20240803, "a model (Llama 3)", "give the tokens"},
        {20240327, "a model's activations, for its tests", "give the tokens"},
        {20240328, "a tokenizer", "give the tokens; --tokenizer takes a folder with vocab.json and merges.txt"},
        {20240522, "questions of HellaSwag", "give the tokens"},
        {20240527, "the state of an optimizer", "give the tokens"}};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
        if (others[k].magic == magic)
            return FAIL(E_FORMAT, "%s is a file of llm.c with %s, and no tokens (magic %d); %s", f->path,
                        others[k].what, magic, others[k].remedy);
    if (!kind_of((int32_t)__builtin_bswap32((uint32_t)magic))) return OK;
    return FAIL(E_FORMAT, "%s has llm.c's header in big-endian order, and little-endian is read; tokenize it again on "
                "a little-endian machine, or turn the bytes round with NumPy's byteswap", f->path);
}

enum status llmc_read(struct data_file *f, const struct data_part *part, bool *mine) {
    const struct llmc_kind *kind = kind_of(magic_of(&part->map));
    struct llmc_header header;
    *mine = kind != NULL;
    if (!kind) return refuse_other(&part->map, magic_of(&part->map));
    TRY(check(&part->map, kind, &header));
    f->format = kind->format;
    return data_add(f, part->map.at + LLMC_HEADER_BYTES, header.n_tokens, kind->element);
}
