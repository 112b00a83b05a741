/* Tokenize text when it is opened. Every rank tokenizes the whole text, so that no communication is needed. */
#include "lib/data/bpe.h"
#include "lib/data/data_private.h"

#include <inttypes.h>
#include <stdlib.h>

struct tokens { int32_t *at; int64_t n, room; };

static enum status keep(void *self, const int32_t *tokens, int64_t n) {
    struct tokens *t = self;
    if (n > t->room - t->n) {
        int64_t room = 2 * (t->n + n);
        int32_t *bigger = realloc(t->at, (size_t)room * sizeof *bigger);
        if (!bigger)
            return FAIL(E_MEMORY,
                        "no memory for %" PRId64
                        " tokens; write them once with trivium data tokenize, and give --data that",
                        room);
        t->at = bigger;
        t->room = room;
    }
    for (int64_t i = 0; i < n; i++) t->at[t->n++] = tokens[i];
    return OK;
}

static enum status tokenize(struct data_file *f, struct data_part *part, struct bpe *tokenizer) {
    struct tokens t = {0};
    enum status status = bpe_encode(tokenizer, (const char *)part->map.at, part->map.bytes, keep, &t);
    part->tokens = t.at;
    part->first = f->n_tokens;
    TRY(status);
    return data_add(f, (const unsigned char *)t.at, t.n, DATA_I32);
}

enum status data_tokenize(struct data_file *f, struct bpe *tokenizer) {
    if (f->format != DATA_TEXT)
        return FAIL(E_CONFIG, "%s holds tokens already (%s); leave --tokenizer out, or give --data the text", f->path,
                    data_format_name(f));
    f->n_stretches = f->n_tokens = 0;
    f->vocab = bpe_n_tokens(tokenizer);
    for (int i = 0; i < f->n_parts; i++) TRY(tokenize(f, &f->parts[i], tokenizer));
    return OK;
}

/* ---- tokens that already mean something ---- */
/* Sources: openai/gpt-2; meta-llama/llama3, llama/tokenizer.py. */
enum { GPT2_VOCAB = 50257, LLAMA3_PIECES = 128000, LLAMA3_VOCAB = 128256 };

struct data_taken data_taken(const struct data_file *f, int64_t vocab) {
    bool gpt2 = f->format == DATA_LLMC_U16 ? vocab >= GPT2_VOCAB : vocab == GPT2_VOCAB;
    if (f->format == DATA_CLICKS || (f->format == DATA_TEXT && !f->parts[0].tokens)) return (struct data_taken){0};
    if (f->format == DATA_TEXT) return (struct data_taken){0, f->vocab, "the tokenizer's own"};
    if (f->format == DATA_LLMC_U32)
        return (struct data_taken){LLAMA3_PIECES, LLAMA3_VOCAB, "special tokens of Llama 3"};
    if (gpt2) return (struct data_taken){GPT2_VOCAB - 1, GPT2_VOCAB, "<|endoftext|> in GPT-2's vocabulary"};
    return (struct data_taken){0};
}
