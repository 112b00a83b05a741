/* Byte-level BPE, the tokenizer of GPT-2, Llama 3 and Qwen: encodes any bytes as tokens, and decodes tokens to bytes.
 * (Models of sentencepiece, as Llama 2's and T5's, have the same interface: bpe_sentencepiece.cpp.)
 *
 * 1. Added tokens, as <|endoftext|>, are found in the text, of several at one place the longest. What is between them
 *    is brought to a normal form, if the tokenizer has one.
 * 2. Patterns cut text into pieces. GPT-2's: the end of a contraction, a word with the blank before it, digits, other
 *    characters, white space.
 *      's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+          "it's 12" -> it 's " 12"
 * 3. At first each byte of a piece is a token. Then merge the pair of neighbors with the lowest rank (the leftmost, if
 *    there are several) as long as the list of merges has a pair. A pair's rank is its place in the list, the order in
 *    which training found the pairs; in tiktoken's files, the number of the token that the two make.
 *
 * vocab.json and merges.txt, and the two in tokenizer.json, write bytes as letters. A printable Latin-1 byte is that
 * character; the other bytes are U+0100, U+0101, ... in order (a blank is U+0120, "Ġ"). vocab.json: {"token": id}, ids
 * 0 to n - 1, each once. merges.txt: "left right" a line, after a line "#version: ...".
 *
 * Patterns do not match bytes that are no UTF-8; a run of them is one piece, so that no byte is lost or replaced.
 * PCRE2's tables define the letters and numbers of Unicode; characters newer than the tables may be cut differently.
 *
 * Source: Sennrich et al. 2016, section 3.2; Radford et al. 2019, section 2.2; openai/gpt-2, src/encoder.py. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

struct bpe;

/** Read a vocabulary and its merges. The files are untrusted: every rule of the format above is checked.
 *  @errors E_DATA: cannot be read; E_FORMAT: file, entry or line, value, limit; E_MEMORY  @collective{none} */
enum status bpe_open(const char *vocab_path, const char *merges_path, struct bpe **out);
/** Open a published tokenizer: a folder with tokenizer.json (bpe_json.c says what of it is read), or with GPT-2's
 *  vocab.json and merges.txt, if the folder's other files do not describe another tokenizer; or a file, which is a
 *  tokenizer.json, a model of sentencepiece or one of tiktoken's.
 *  @errors as bpe_open; E_FORMAT: another tokenizer, with its name or the key that is not read */
enum status bpe_open_folder(const char *path, struct bpe **out);
void bpe_close(struct bpe **);

/** Size of the vocabulary: tokens are 0 .. n - 1. */
int32_t bpe_n_tokens(const struct bpe *);
/** The token that ends a text: eos_token of tokenizer_config.json, else <|endoftext|>; -1: none. */
int32_t bpe_end_of_text(const struct bpe *);

/** Receives the next n > 0 tokens of a text. */
typedef enum status bpe_sink(void *self, const int32_t *tokens, int64_t n);
/** Pass the tokens of a text, in order and a few at a time, to `sink`. Only one thread may call it, because *bpe holds
 *  the work space.
 *  @errors E_DATA: a piece of more than 1 GiB, or one that PCRE2 gives up; E_MEMORY; an error of sink
 *  @collective{none} */
enum status bpe_encode(struct bpe *, const char *text, int64_t bytes, bpe_sink *sink, void *self);

/** The bytes of one token, borrowed, not terminated; NULL if there is no such token. A number that the vocabulary
 *  leaves out has none. sentencepiece's control tokens have their names. */
const char *bpe_token(const struct bpe *, int64_t token, int64_t *bytes);
