/* Byte-level BPE, GPT-2's tokenizer: any bytes to tokens, and back to the same bytes.
 *
 * 1. A pattern cuts text into pieces: a contraction's end, a word with the blank before it, digits, other characters,
 * white space.
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+          "it's 12" -> it 's " 12"
 * 2. Each byte of a piece is a token. As long as two neighbors can be merged, the pair of the lowest rank is (the
 * leftmost, where
 *    there are several); the merges are listed in merges.txt in the order in which training found them.
 *
 * vocab.json and merges.txt write bytes as letters: a byte that is printable in Latin-1 is itself, the others follow
 * from U+0100 on (a blank is U+0120, "Ġ"). vocab.json: {"token": id}, ids 0 to n - 1, each once. merges.txt: "left
 * right" a line, after a line "#version: ...". <|endoftext|>, if the vocabulary has it, is one token wherever it stands
 * in a text.
 *
 * Bytes that are no UTF-8 fit no pattern: a run of them is a piece of its own, so that nothing is lost or replaced.
 * What Unicode calls a letter or a number is PCRE2's business, and may differ in characters that are newer than its
 * tables.
 *
 * Source: Radford et al. 2019, section 2.2; openai/gpt-2, src/encoder.py. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct bpe;

/** Read a vocabulary and its merges. The files may come from anybody, and all that is said above is checked.
 *  @errors E_DATA: cannot be read; E_FORMAT: file, entry or line, value, limit; E_MEMORY  @collective{none} */
enum status bpe_open(const char *vocab_path, const char *merges_path, struct bpe **out);
/** FOLDER/vocab.json and FOLDER/merges.txt, if no file in the folder names another tokenizer than GPT-2's
 *  (bpe_folder.c). @errors as bpe_open; E_FORMAT: another one, by its name */
enum status bpe_open_folder(const char *folder, struct bpe **out);
void bpe_close(struct bpe **);

/** Size of the vocabulary: tokens are 0 .. n - 1. */
int32_t bpe_n_tokens(const struct bpe *);
/** The token of <|endoftext|>, or -1. */
int32_t bpe_end_of_text(const struct bpe *);

/** Gets n > 0 tokens, the next ones of a text. */
typedef enum status bpe_sink(void *self, const int32_t *tokens, int64_t n);
/** The tokens of a text, in order and a few at a time, to sink(self). Not by several threads at once: *bpe has the work
 *  space.
 *  @errors E_DATA: a piece of 1 GiB; E_MEMORY; what sink returns  @collective{none} */
enum status bpe_encode(struct bpe *, const char *text, int64_t bytes, bpe_sink *sink, void *self);

/** The bytes of one token, borrowed, not terminated; NULL: no such token. */
const char *bpe_token(const struct bpe *, int64_t token, int64_t *bytes);
