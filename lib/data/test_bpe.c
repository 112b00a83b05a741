/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "lib/data/bpe.h"
#include "lib/data/data.h"
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "tests/data/bpe"

/* ---- encoding, kept whole ---- */

struct kept { int32_t at[4096]; int64_t n; };

static enum status keep(void *self, const int32_t *tokens, int64_t n) {
    struct kept *k = self;
    assert_true(n > 0 && k->n + n <= 4096);
    memcpy(k->at + k->n, tokens, (size_t)n * sizeof *tokens);
    k->n += n;
    return OK;
}

static struct kept encode(struct bpe *b, const char *text, size_t bytes) {
    struct kept k = {.n = 0};
    assert_ok(bpe_encode(b, text, (int64_t)bytes, keep, &k));
    return k;
}

static void assert_round_trip(const struct bpe *b, const struct kept *k, const char *text, size_t bytes) {
    size_t at = 0;
    for (int64_t i = 0; i < k->n; i++) {
        int64_t n = 0;
        const char *piece = bpe_token(b, k->at[i], &n);
        assert_non_null(piece);
        assert_true(at + (size_t)n <= bytes);
        assert_memory_equal(piece, text + at, (size_t)n);
        at += (size_t)n;
    }
    assert_int_equal(at, bytes);
}

static struct bpe *fixture(void) {
    struct bpe *b = NULL;
    assert_ok(bpe_open_folder(FOLDER, &b));
    return b;
}

static bool same_tokens(struct bpe *b, const json_t *text, const json_t *tokens) {
    struct kept k = encode(b, json_string_value(text), json_string_length(text));
    bool same = (size_t)k.n == json_array_size(tokens);
    for (int64_t t = 0; same && t < k.n; t++) same = k.at[t] == json_integer_value(json_array_get(tokens, (size_t)t));
    return same;
}

static json_t *expected(void) {
    json_t *all = json_load_file(FOLDER "/expected.json", JSON_ALLOW_NUL, NULL);
    assert_true(json_array_size(json_object_get(all, "texts")) > 40);
    assert_true(json_array_size(json_object_get(all, "kinds")) > 8);
    return all;
}

/* The expected tokens come from Hugging Face's library tokenizers (tests/data/bpe/make.py). */
TEST(test_tokens_are_those_of_another_encoder) {
    struct bpe *b = fixture();
    json_t *all = expected(), *text;
    size_t i;
    json_array_foreach(json_object_get(all, "texts"), i, text) {
        if (!same_tokens(b, text, json_array_get(json_object_get(all, "pair"), i)))
            fail_msg("text %zu: \"%s\"", i, json_string_value(text));
        struct kept k = encode(b, json_string_value(text), json_string_length(text));
        assert_round_trip(b, &k, json_string_value(text), json_string_length(text));
    }
    json_decref(all);
    bpe_close(&b);
    assert_null(b);
}

/* A tokenizer.json with the settings of a kind, and the vocab and merges that all kinds share. */
static const char *write_tokenizer(json_t *kind, const json_t *model) {
    json_t *tokenizer = json_object_get(kind, "tokenizer");
    json_object_update(json_object_get(tokenizer, "model"), (json_t *)model);
    const char *path = test_path("tokenizer.json");
    assert_int_equal(json_dump_file(tokenizer, path, 0), 0);
    return path;
}

/* The tokens of all texts are those that this kind expects. Closes *b. */
static void assert_kind(struct bpe **b, const json_t *all, const json_t *kind) {
    const json_t *text;
    size_t i;
    json_array_foreach(json_object_get(all, "texts"), i, text)
        if (!same_tokens(*b, text, json_array_get(json_object_get(kind, "tokens"), i)))
            fail_msg("%s, text %zu: \"%s\"", json_string_value(json_object_get(kind, "name")), i,
                     json_string_value(text));
    bpe_close(b);
}

/* Each kind cuts the texts in another way, and the merges cross every border. */
TEST(test_a_tokenizer_json_is_followed) {
    json_t *all = expected(), *kind;
    size_t k;
    json_array_foreach(json_object_get(all, "kinds"), k, kind) {
        struct bpe *b = NULL;
        assert_ok(bpe_open_folder(write_tokenizer(kind, json_object_get(all, "model")), &b));
        assert_kind(&b, all, kind);
    }
    json_decref(all);
}

/* ---- models of sentencepiece ---- */

#define MODEL "sentencepiece/tokenizer.model"

static unsigned char model_bytes[1 << 14];                      /* of the model that was written last */
static size_t n_model_bytes;

static void write_bytes(size_t n) {
    mkdir(test_path("sentencepiece"), 0777);
    FILE *f = fopen(test_path(MODEL), "wb");
    assert_true(f && fwrite(model_bytes, 1, n, f) == n && fclose(f) == 0);
}

static void write_model(const json_t *kind) {
    const char *text = json_string_value(json_object_get(kind, "model"));
    assert_int_equal(sodium_base642bin(model_bytes, sizeof model_bytes, text, strlen(text), NULL, &n_model_bytes, NULL,
                                       sodium_base64_VARIANT_ORIGINAL), 0);
    write_bytes(n_model_bytes);
}

/* Skip the test in a build without the library, which says how to get one. */
static void open_model(const json_t *kind, struct bpe **b) {
    write_model(kind);
    if (bpe_open_folder(test_path(MODEL), b) == OK) return;
    assert_fails(bpe_open_folder(test_path(MODEL), b), E_FORMAT, "tokenizer.model", "without that library",
                 "tools/install-deps sentencepiece");
    skip();
}

/* The expected tokens come from sentencepiece's module for Python, another version of the library. */
TEST(test_models_of_sentencepiece_are_followed) {
    json_t *all = expected(), *kind;
    size_t k;
    assert_int_equal(json_array_size(json_object_get(all, "sentencepiece")), 2);
    json_array_foreach(json_object_get(all, "sentencepiece"), k, kind) {
        struct bpe *b = NULL;
        open_model(kind, &b);
        assert_int_equal(bpe_n_tokens(b), json_integer_value(json_object_get(kind, "n")));
        assert_kind(&b, all, kind);
    }
    json_decref(all);
}

static void assert_token(const struct bpe *b, int64_t token, const char *want) {
    int64_t n = -1;
    const char *bytes = bpe_token(b, token, &n);
    assert_int_equal(n, strlen(want));
    assert_memory_equal(bytes, want, (size_t)n);
}

/* Tokens stand for the text with a blank before it; bytes of unknown characters are tokens. */
TEST(test_tokens_of_sentencepiece_have_bytes) {
    static const char text[] = " it's  12 \xf0\x9f\x98\x80\n<s>";
    struct bpe *b = NULL;
    json_t *all = expected();
    open_model(json_array_get(json_object_get(all, "sentencepiece"), 0), &b);
    struct kept k = encode(b, text + 1, sizeof text - 2);
    assert_round_trip(b, &k, text, sizeof text - 1);
    assert_int_equal(bpe_end_of_text(b), 2);
    assert_token(b, 0, "<unk>"), assert_token(b, 1, "<s>"), assert_token(b, 2, "</s>");
    assert_token(b, 3 + 0xff, "\xff");
    assert_int_equal(encode(b, "", 0).n, 0);
    bpe_close(&b);
    open_model(json_array_get(json_object_get(all, "sentencepiece"), 1), &b);
    assert_int_equal(bpe_end_of_text(b), 1);
    assert_token(b, 4, " the");
    json_decref(all);
    bpe_close(&b);
}

static void assert_cut(size_t n) {
    struct bpe *b = NULL;
    write_bytes(n);
    assert_fails(bpe_open_folder(test_path(MODEL), &b), E_FORMAT, "tokenizer.model", "get the file again");
    assert_null(b);
}

TEST(test_a_bad_model_of_sentencepiece_is_refused) {
    struct bpe *b = NULL;
    json_t *all = expected();
    open_model(json_array_get(json_object_get(all, "sentencepiece"), 1), &b);
    bpe_close(&b);
    json_decref(all);
    assert_fails(bpe_open_folder(test_path("sentencepiece"), &b), E_DATA, "vocab.json", "or give the model next to it",
                 "tokenizer.model");
    assert_null(b);
    for (size_t n = 1; n < n_model_bytes; n += n < 99 ? 1 : 61) assert_cut(n);
    int pieces = 0;
    for (size_t n = 0; model_bytes[n] == '\n'; n += 2 + model_bytes[n + 1])  /* a piece: its tag, its length, bytes */
        if (pieces++ % 16 == 15) assert_cut(n);
    assert_int_equal(pieces, 220);
}

/* All 256 bytes, and invalid UTF-8 of every kind: encoding and decoding returns the same bytes. */
TEST(test_bytes_that_are_no_utf8_come_back) {
    struct bpe *b = fixture();
    static const char texts[][16] = {"\xff",
                                     "a\xff"
                                     "b",
                                     "\xe2\x82",
                                     "the \xe2\x82 the",
                                     "\xc3(\xa9",
                                     "\xed\xa0\x80 surrogate",
                                     "\xf4\x90\x80\x80",
                                     "\xc0\xaf",
                                     "\x80\x80\x80the"};
    char all[256];
    for (int i = 0; i < 256; i++) all[i] = (char)i;
    struct kept k = encode(b, all, 256);
    assert_round_trip(b, &k, all, 256);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        k = encode(b, texts[i], strlen(texts[i]));
        assert_round_trip(b, &k, texts[i], strlen(texts[i]));
    }
    struct kept broken = encode(b, "the\xff the", 8), first = encode(b, "the", 3), last = encode(b, " the", 4);
    assert_int_equal(broken.n, first.n + 1 + last.n); /* the text around \xff has the tokens that it has alone */
    assert_memory_equal(broken.at, first.at, (size_t)first.n * sizeof *first.at);
    assert_memory_equal(broken.at + first.n + 1, last.at, (size_t)last.n * sizeof *last.at);
    bpe_close(&b);
}

TEST(test_end_of_text_is_one_token) {
    struct bpe *b = fixture();
    struct kept k = encode(b, "a<|endoftext|>", 14);
    assert_int_equal(bpe_n_tokens(b), 512);
    assert_int_equal(bpe_end_of_text(b), 0);
    assert_int_equal(k.n, 2);
    assert_int_equal(k.at[1], 0);
    int64_t n;
    assert_null(bpe_token(b, 512, &n));
    assert_null(bpe_token(b, -1, &n));
    bpe_close(&b);
}

/* ---- malformed files ---- */

static const char *write_text(const char *name, const char *text, size_t n) {
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static char *append_letter(char *at, int byte) {
    static const char *const plain =
        "!#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~";
    if (byte < 128 && strchr(plain, byte) && byte) return at + sprintf(at, "%c", byte);
    int letter = byte;
    bool itself = byte == '"' || byte == '\\' || (byte >= 0xA1 && byte != 0xAD);
    if (!itself) { /* the n-th byte that is not printable is U+0100 + n */
        letter = 256;
        for (int i = 0; i < byte; i++) letter += i < '!' || (i > '~' && i < 0xA1) || i == 0xAD;
    }
    return at + sprintf(at, "\\u%04x", letter);
}

/* Write a vocabulary of all bytes in order, except the byte `without` (-1: none), and the tokens in `more`. */
static const char *write_vocab(int without, const char *more) {
    static char text[16384];
    char *at = text + sprintf(text, "{");
    int id = 0;
    for (int byte = 0; byte < 256; byte++) {
        if (byte == without) continue;
        at += sprintf(at, "\"");
        at = append_letter(at, byte);
        at += sprintf(at, "\":%d,", id++);
    }
    if (more) at += sprintf(at, "%s}", more);
    else at[-1] = '}';
    return write_text("vocab.json", text, strlen(text));
}

static enum status open_with(const char *vocab, const char *merges) {
    struct bpe *b = NULL;
    enum status status = bpe_open(vocab, write_text("merges.txt", merges, strlen(merges)), &b);
    assert_int_equal(b != NULL, status == OK);
    bpe_close(&b);
    return status;
}

TEST(test_a_vocabulary_of_bytes_and_one_merge) {
    struct bpe *b = NULL;
    const char *vocab = write_vocab(-1, "\"ab\":256,\"abc\":257,\"bc\":258");
    assert_ok(bpe_open(vocab, write_text("merges.txt", "b c\r\na b\nab c", 13), &b));
    assert_int_equal(bpe_end_of_text(b), -1);
    struct kept k = encode(b, "abcab", 5); /* "b c" is merged first, and the first "a" stays alone */
    const int32_t want[] = {'a', 258, 256};
    assert_int_equal(k.n, 3);
    assert_memory_equal(k.at, want, sizeof want);
    for (int byte = 0; byte < 256; byte++) {
        char c = (char)byte;
        k = encode(b, &c, 1);
        assert_true(k.n == 1 && k.at[0] == byte);
    }
    bpe_close(&b);
}

TEST(test_a_bad_vocabulary_is_refused) {
    struct bpe *b = NULL;
    assert_fails(bpe_open_folder("nowhere", &b), E_DATA, "nowhere/vocab.json", "No such file", "--tokenizer");
    assert_fails(open_with(write_text("v.json", "", 0), ""), E_FORMAT, "v.json", "not JSON", "end of file");
    assert_fails(open_with(write_text("v.json", "{\"a\": 1", 7), ""), E_FORMAT, "v.json", "not JSON", "line 1");
    assert_fails(open_with(write_text("v.json", "[1, 2]", 6), ""), E_FORMAT, "v.json", "object");
    assert_fails(open_with(write_text("v.json", "{}", 2), "x"), E_FORMAT, "no token for the byte 0x00");
    assert_fails(open_with(write_text("v.json", "{\"a\":0,\"a\":1}", 13), ""), E_FORMAT, "not JSON", "duplicate");
    assert_fails(open_with(write_vocab('x', NULL), "x"), E_FORMAT, "byte 0x78", "256");
    assert_fails(open_with(write_vocab(-1, "\"ab\":255"), "x"), E_FORMAT, "\"ab\"", "both", "255");
    assert_fails(open_with(write_vocab(-1, "\"ab\":257"), "x"), E_FORMAT, "\"ab\"", "0 to 256", "257 tokens");
    assert_fails(open_with(write_vocab(-1, "\"ab\":-1"), "x"), E_FORMAT, "\"ab\"", "0 to 256");
    assert_fails(open_with(write_vocab(-1, "\"ab\":1e300"), "x"), E_FORMAT, "\"ab\"", "0 to 256");
    assert_fails(open_with(write_vocab(-1, "\"ab\":99999999999999999999999"), "x"), E_FORMAT, "not JSON", "integer");
    assert_fails(open_with(write_vocab(-1, "\"ab\":\"256\""), "x"), E_FORMAT, "\"ab\"", "0 to 256");
    assert_fails(open_with(write_vocab(-1, "\"a b\":256"), "x"), E_FORMAT, "\"a b\"", "character 2", "maps to no byte");
    assert_fails(open_with(write_vocab(-1, "\"\\u0144\":256"), "x"), E_FORMAT, "maps to no byte");
    assert_fails(open_with(write_vocab(-1, "\"\\u20ac\":256"), "x"), E_FORMAT, "maps to no byte");
    assert_fails(open_with(write_vocab(-1, "\"\":256"), "x"), E_FORMAT, "token 256 is empty");
    const char *huge = write_text("v.json", "{}", 2);
    assert_int_equal(truncate(huge, (16 << 20) + 1), 0);
    assert_fails(open_with(huge, "x"), E_FORMAT, "v.json has 16777217 bytes", "16777216");
}

TEST(test_bad_merges_are_refused) {
    char zero[] = "a b\n\0 b\n", line[5000];
    struct bpe *b = NULL;
    char vocab[256];
    snprintf(vocab, sizeof vocab, "%s", write_vocab(-1, "\"ab\":256"));
    assert_ok(open_with(vocab, "#version: 0.2\na b\n"));
    assert_fails(open_with(vocab, "\n"), E_FORMAT, "token 256, \"ab\"", "no byte and no merge", "only special token");
    assert_ok(open_with(write_vocab(-1, NULL), "\n"));
    assert_ok(open_with(write_vocab(-1, "\"<|endoftext|>\":256"), "")); /* no merges */
    snprintf(vocab, sizeof vocab, "%s", write_vocab(-1, "\"ab\":256"));
    assert_fails(open_with(vocab, "a b\na xy\n"), E_FORMAT, "line 2", "\"xy\"", "not in the vocabulary");
    assert_fails(open_with(vocab, "b a\n"), E_FORMAT, "line 1", "\"ba\"", "not in the vocabulary");
    assert_fails(open_with(vocab, "ab\n"), E_FORMAT, "line 1", "\"ab\"", "two tokens");
    assert_fails(open_with(vocab, "a b c\n"), E_FORMAT, "line 1", "two tokens");
    assert_fails(open_with(vocab, " ab\n"), E_FORMAT, "line 1", "two tokens");
    assert_fails(open_with(vocab, "ab \n"), E_FORMAT, "line 1", "two tokens");
    assert_fails(open_with(vocab, "a b\n#version: 0.2\n"), E_FORMAT, "line 2");
    assert_fails(open_with(vocab, "a b\na b\n"), E_FORMAT, "merges 1 and 2", "same pair");
    assert_fails(bpe_open(vocab, write_text("z.txt", zero, sizeof zero - 1), &b), E_FORMAT, "line 2", "zero byte");
    memset(line, 'a', sizeof line);
    line[2] = ' ';
    assert_fails(bpe_open(vocab, write_text("long.txt", line, sizeof line), &b), E_FORMAT, "line 1", "4096");
}

/* ---- in use ---- */

static enum status refuse_second(void *self, const int32_t *tokens, int64_t n) {
    (void)tokens, (void)n;
    return ++*(int *)self == 2 ? FAIL(E_IO, "full") : OK;
}

TEST(test_a_sinks_failure_ends_the_encoding) {
    struct bpe *b = fixture();
    int calls = 0;
    assert_fails(bpe_encode(b, "one two three four", 18, refuse_second, &calls), E_IO, "full");
    assert_int_equal(calls, 2);
    bpe_close(&b);
}

/* One piece of a million letters: merging takes O(n log n) time, not O(n^2). */
TEST(test_a_long_piece_is_no_trap) {
    enum { N = 1000000 };
    struct bpe *b = fixture();
    struct data_file *file = NULL;
    char *text = malloc(N);
    for (int i = 0; i < N; i++) text[i] = "the"[i % 3];
    assert_ok(data_open_as(write_text("long.txt", text, N), DATA_AS_AUTO, b, &file));
    assert_true(data_n_tokens(file) < N);
    assert_int_equal(data_vocab(file), 512);
    data_close(&file);
    free(text);
    bpe_close(&b);
}

TEST(test_text_opened_with_a_tokenizer) {
    static const char text[] = "the king and the queen";
    struct bpe *b = fixture();
    struct data_file *file = NULL;
    struct kept k = encode(b, text, sizeof text - 1);
    assert_ok(data_open_as(write_text("a.txt", text, sizeof text - 1), DATA_AS_AUTO, b, &file));
    assert_int_equal(data_n_tokens(file), k.n);
    for (int64_t i = 0; i < k.n; i++) assert_int_equal(data_token(file, i), k.at[i]);
    data_close(&file);
    char llmc[1026] = {0};
    memcpy(llmc, (const int32_t[]){20240520, 1, 1}, 12);
    assert_fails(data_open_as(write_text("t.bin", llmc, sizeof llmc), DATA_AS_AUTO, b, &file), E_CONFIG, "t.bin",
                 "tokens already", "--tokenizer");
    assert_null(file);
    bpe_close(&b);
}

TESTS(unit_test(test_tokens_are_those_of_another_encoder), unit_test(test_a_tokenizer_json_is_followed),
      unit_test(test_models_of_sentencepiece_are_followed), unit_test(test_tokens_of_sentencepiece_have_bytes),
      unit_test(test_a_bad_model_of_sentencepiece_is_refused), unit_test(test_bytes_that_are_no_utf8_come_back),
      unit_test(test_end_of_text_is_one_token), unit_test(test_a_sinks_failure_ends_the_encoding),
      unit_test(test_a_vocabulary_of_bytes_and_one_merge), unit_test(test_a_bad_vocabulary_is_refused),
      unit_test(test_bad_merges_are_refused), unit_test(test_a_long_piece_is_no_trap),
      unit_test(test_text_opened_with_a_tokenizer))
