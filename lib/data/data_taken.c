#include "lib/data/data_taken.h"

#include "lib/data/data_private.h"

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
