/* ranks: 1  device: cpu */
/* Which tokenizer a folder or a file is: what is refused, with the reason; and tiktoken's files. */
#include "tests/test.h"

#include "lib/data/bpe.h"
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *in_folder(const char *name) {
    static char path[1200];
    snprintf(path, sizeof path, "%s/%s", test_path("tokenizer"), name);
    return path;
}

static void copy(const char *name) {
    char from[256], bytes[1 << 16];
    snprintf(from, sizeof from, "tests/data/bpe/%s", name);
    FILE *in = fopen(from, "rb"), *out = fopen(in_folder(name), "wb");
    assert_true(in && out);
    size_t n = fread(bytes, 1, sizeof bytes, in);
    assert_true(n > 0 && n < sizeof bytes && fwrite(bytes, 1, n, out) == n);
    fclose(in), fclose(out);
}

/* Open a folder with vocab.json, merges.txt and this third file. */
static enum status open_with(const char *name, const char *text) {
    struct bpe *b = NULL;
    mkdir(test_path("tokenizer"), 0777);
    copy("vocab.json"), copy("merges.txt");
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    enum status status = bpe_open_folder(test_path("tokenizer"), &b);
    assert_int_equal(b != NULL, status == OK);
    bpe_close(&b);
    unlink(in_folder(name));
    return status;
}

static const struct {
    const char *name, *text, *why;
} CASES[] = {
    {"tokenizer_config.json", "{\"model_max_length\": 1024}", NULL},
    {"tokenizer_config.json",
     "{\"tokenizer_class\": \"GPT2Tokenizer\", \"add_prefix_space\": false, \"bos_token\": "
     "{\"content\": \"<|endoftext|>\"}, \"added_tokens_decoder\": {\"256\": {\"content\": \"<|endoftext|>\"}}}",
     NULL},
    {"tokenizer_config.json", "{\"tokenizer_class\": \"Qwen2Tokenizer\"}", "tokenizer_class is Qwen2Tokenizer"},
    {"tokenizer_config.json", "{\"tokenizer_class\": \"CLIPTokenizer\"}", "CLIPTokenizer"},
    {"tokenizer_config.json", "{\"add_prefix_space\": true}", "add_prefix_space is true"},
    {"tokenizer_config.json", "{\"pad_token\": \"<pad>\"}", "a special token is <pad>"},
    {"tokenizer_config.json", "{\"added_tokens_decoder\": {\"9\": {\"content\": \"<|im_end|>\"}}}", "<|im_end|>"},
    {"tokenizer_config.json", "{\"additional_special_tokens\": [\"<x>\"]}", "<x>"},
    {"tokenizer_config.json", "{", "tokenizer_config.json is not JSON"},
    {"special_tokens_map.json", "{\"eos_token\": \"<|endoftext|>\"}", NULL},
    {"special_tokens_map.json", "{\"bos_token\": {\"content\": \"<s>\"}}",
     "special_tokens_map.json: a special token is <s>"},
    {"special_tokens_map.json", "{\"additional_special_tokens\": [\"<fim>\"]}", "<fim>"},
    {"added_tokens.json", "{\"<|endoftext|>\": 256}", NULL},
    {"added_tokens.json", "{\"<|im_start|>\": 512}", "added_tokens.json: a special token is <|im_start|>"},
#define LAST "{\"type\": \"ByteLevel\"}"
#define STEPS(first) "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": [" first ", " LAST "]}}"
#define SPLIT(more) STEPS("{\"type\": \"Split\", " more "}")
#define REGEX(regex) SPLIT("\"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"" regex "\"}")
#define WITH(more) "{\"pre_tokenizer\": " LAST ", " more "}"
#define ADDED(more) \
    WITH("\"model\": {\"vocab\": {}, \"merges\": []}, \"added_tokens\": [{\"id\": 7, \"content\": \"<x>\"" more "}]")
    {"tokenizer.json", "[", "tokenizer.json is not JSON"},
    {"tokenizer.json", WITH("\"truncation\": {\"max_length\": 9}"), "truncation is set"},
    {"tokenizer.json", WITH("\"padding\": {}"), "padding is set"},
    {"tokenizer.json", "{\"normalizer\": {\"type\": \"Lowercase\"}}", "the normalizer is Lowercase"},
    {"tokenizer.json",
     "{\"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"NFC\"}, {\"type\": \"Strip\"}]}}",
     "the normalizer is Sequence"},
    {"tokenizer.json", "{\"pre_tokenizer\": null}", "the last pre_tokenizer is missing"},
    {"tokenizer.json", "{\"pre_tokenizer\": {\"type\": \"Metaspace\"}}", "the last pre_tokenizer is Metaspace"},
    {"tokenizer.json", "{\"pre_tokenizer\": {\"type\": \"Sequence\", \"pretokenizers\": []}}", "is missing"},
    {"tokenizer.json", STEPS(LAST), "a pre_tokenizer is ByteLevel"},
    {"tokenizer.json", STEPS("{\"type\": \"Punctuation\"}"), "a pre_tokenizer is Punctuation"},
    {"tokenizer.json", SPLIT("\"behavior\": \"Removed\""), "behavior of a Split is Removed"},
    {"tokenizer.json", SPLIT("\"behavior\": \"Isolated\", \"invert\": true"), "invert of a Split is true"},
    {"tokenizer.json", SPLIT("\"behavior\": \"Isolated\", \"pattern\": {\"String\": \"a\"}"), "no Regex"},
    {"tokenizer.json", REGEX("a\\\\w"), "has \"\\w\" at character 2"},
    {"tokenizer.json", REGEX("[a\\\\S]"), "has \"\\S\" at character 3"},
    {"tokenizer.json", REGEX("\\\\pL"), "has \"\\p\" at character 1"},
    {"tokenizer.json", REGEX("\\\\p{^L}"), "has \"\\p{\" at character 1"},
    {"tokenizer.json", REGEX("\\\\p{Nonesuch}"), "PCRE2 does not read"},
    {"tokenizer.json", REGEX("a\\\\"), "has \"\\\" at character 2"},
    {"tokenizer.json", REGEX("(?<n>a)"), "has \"(?<\" at character 1"},
    {"tokenizer.json", REGEX("a{2}+"), "has \"{2}+\" at character 2"},
    {"tokenizer.json", REGEX("a{x}"), "at character 2"},
    {"tokenizer.json", REGEX("[ab&&b]"), "has \"&\" at character 4"},
    {"tokenizer.json", REGEX("[[:alpha:]]"), "has \"[\" at character 2"},
    {"tokenizer.json", REGEX("[^]a]"), "has \"[^]\" at character 1"},
    {"tokenizer.json", REGEX("a$"), "has \"$\" at character 2"},
    {"tokenizer.json", REGEX("(a"), "PCRE2 does not read the pattern \"(a\""},
    {"tokenizer.json", REGEX("a*"), "matches an empty text"},
    {"tokenizer.json", WITH("\"model\": {\"type\": \"Unigram\"}"), "the model is Unigram"},
    {"tokenizer.json", WITH("\"model\": {\"end_of_word_suffix\": \"</w>\"}"), "end_of_word_suffix is set"},
    {"tokenizer.json", WITH("\"model\": {\"byte_fallback\": true}"), "byte_fallback is set"},
    {"tokenizer.json", WITH("\"model\": {\"dropout\": 0.1}"), "dropout is set"},
    {"tokenizer.json", WITH("\"model\": {}"), "no vocab or no merges"},
    {"tokenizer.json", ADDED(", \"lstrip\": true"), "lstrip of the added token <x> is true"},
    {"tokenizer.json", ADDED(", \"single_word\": true"), "single_word of the added token <x>"},
    {"tokenizer.json", ADDED(""), "no token for the byte 0x00"},
    {"tokenizer.json", WITH("\"model\": {\"vocab\": {\"a\": 0}, \"merges\": [3]}, \"added_tokens\": [{\"id\": -1}]"),
     "added token 0 has no content"},
};

TEST(test_a_folder_of_another_tokenizer_is_refused) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (CASES[i].why) assert_fails(open_with(CASES[i].name, CASES[i].text), E_FORMAT, CASES[i].name, CASES[i].why);
        else assert_ok(open_with(CASES[i].name, CASES[i].text));
}

/* ---- a tokenizer.json made of the pair, and what stands next to it ---- */

static json_t *load(const char *name) {
    char path[256];
    snprintf(path, sizeof path, "tests/data/bpe/%s", name);
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, NULL);
    assert_non_null(json);
    return json;
}

/* A folder with a tokenizer.json of the kinds' model, `added`, and a tokenizer_config.json. */
static enum status open_json(const char *added, const char *config, struct bpe **b) {
    mkdir(test_path("tokenizer"), 0777);
    json_t *all = load("expected.json"), *model = json_object_get(all, "model"),
           *tokenizer = json_pack("{s{ss} sO s[o]}", "pre_tokenizer", "type", "ByteLevel", "model", model,
                                  "added_tokens", json_loads(added, 0, NULL));
    assert_non_null(tokenizer);
    assert_int_equal(json_dump_file(tokenizer, in_folder("tokenizer.json"), 0), 0);
    json_decref(tokenizer), json_decref(all);
    FILE *f = fopen(in_folder("tokenizer_config.json"), "w");
    fputs(config, f);
    fclose(f);
    enum status status = bpe_open_folder(test_path("tokenizer"), b);
    unlink(in_folder("tokenizer_config.json")), unlink(in_folder("tokenizer.json"));
    return status;
}

TEST(test_the_files_next_to_a_tokenizer_json_agree) {
    struct bpe *b = NULL;
    const char *end = "{\"id\": 950, \"content\": \"</s>\", \"special\": true}";
    assert_ok(open_json(end, "{\"eos_token\": \"</s>\", \"add_prefix_space\": true, \"added_tokens_decoder\": "
                             "{\"950\": {\"content\": \"</s>\"}}}", &b));
    assert_int_equal(bpe_n_tokens(b), 951);
    assert_int_equal(bpe_end_of_text(b), 950);
    int64_t bytes;
    assert_true(bpe_token(b, 949, &bytes) && bytes == 0);      /* a number that no token has */
    bpe_close(&b);
    assert_fails(open_json(end, "{\"add_prefix_space\": false}", &b), E_FORMAT, "tokenizer_config.json",
                 "add_prefix_space is false", "the opposite");
    assert_null(b);
    assert_fails(open_json(end, "{\"added_tokens_decoder\": {\"951\": {\"content\": \"<pad>\"}}}", &b), E_FORMAT,
                 "token 951", "<pad>");
    assert_fails(open_json("{\"id\": 7, \"content\": \"</s>\"}", "{}", &b), E_FORMAT, "</s>", "the number 7");
    assert_fails(open_json("{\"id\": 1048576, \"content\": \"</s>\"}", "{}", &b), E_FORMAT, "</s>",
                 "the number 1048576", "1048575");
}

/* ---- tiktoken's files ---- */

enum { LINES = 50256, LLAMA4_LINES = 200000, LETTERS = 4, LONGEST = 9 };
static int32_t rank_of[LLAMA4_LINES];                           /* of the i-th text of letters a to d */

static int64_t first_of(int length) {                           /* the first of the texts of this length, from 2 on */
    int64_t n = 0;
    for (int l = 2, count = LETTERS * LETTERS; l < length; l++, count *= LETTERS) n += count;
    return n;
}

/* Which text of letters is it? -1: none that has a token. */
static int32_t rank_of_text(const char *text, int length) {
    int64_t at = 0;
    if (length == 1) return (unsigned char)*text;
    for (int i = 0; i < length && length <= LONGEST; i++) {
        if (text[i] < 'a' || text[i] >= 'a' + LETTERS) return -1;
        at = at * LETTERS + (text[i] - 'a');
    }
    at += first_of(length);
    return length <= LONGEST && at < LINES - 256 ? rank_of[at] : -1;
}

static void write_line(FILE *f, const char *bytes, size_t n, int32_t number) {
    char text[64];
    sodium_bin2base64(text, sizeof text, (const unsigned char *)bytes, n, sodium_base64_VARIANT_ORIGINAL);
    fprintf(f, "%s %d\n", text, number);
}

/* 256 bytes, and the shortest texts of the letters a to d, with numbers in another order. */
static const char *write_tiktoken(const char *name, int64_t lines) {
    const char *path = test_path(name);
    FILE *f = fopen(path, "wb");
    for (int byte = 0; byte < 256; byte++) write_line(f, &(char){(char)byte}, 1, byte);
    int64_t i = 0;
    for (int length = 2; i < lines - 256; length++)
        for (int64_t at = 0, n = first_of(length + 1) - first_of(length); at < n && i < lines - 256; at++, i++) {
            char text[LONGEST];
            for (int64_t c = length - 1, left = at; c >= 0; c--, left /= LETTERS)
                text[c] = (char)('a' + left % LETTERS);
            rank_of[i] = 256 + (int32_t)((i * 7919) % (lines - 256)); /* 7919: a prime, no divisor of lines - 256 */
            write_line(f, text, (size_t)length, rank_of[i]);
        }
    fclose(f);
    return path;
}

/* tiktoken's algorithm, step by step: merge the neighbors that make the token of the lowest rank. */
static int merged_slowly(const char *text, int n, int32_t *tokens) {
    int at[64], parts = n;
    for (int i = 0; i <= n; i++) at[i] = i;
    if (rank_of_text(text, n) >= 0) parts = 1, at[1] = n;
    for (int best = 0; best >= 0;) {
        int32_t lowest = INT32_MAX;
        best = -1;
        for (int i = 0; i + 2 <= parts; i++) {
            int32_t rank = rank_of_text(text + at[i], at[i + 2] - at[i]);
            if (rank >= 0 && rank < lowest) lowest = rank, best = i;
        }
        if (best >= 0) memmove(&at[best + 1], &at[best + 2], (size_t)(parts-- - best - 1) * sizeof *at);
    }
    for (int i = 0; i < parts; i++) tokens[i] = rank_of_text(text + at[i], at[i + 1] - at[i]);
    return parts;
}

struct kept { int32_t at[64]; int64_t n; };
static enum status keep(void *self, const int32_t *tokens, int64_t n) {
    struct kept *k = self;
    memcpy(k->at + k->n, tokens, (size_t)n * sizeof *tokens);
    k->n += n;
    return OK;
}

TEST(test_tiktokens_ranks_are_followed) {
    struct bpe *b = NULL;
    assert_ok(bpe_open_folder(write_tiktoken("r50k.tiktoken", LINES), &b));
    assert_int_equal(bpe_n_tokens(b), LINES + 1);
    assert_int_equal(bpe_end_of_text(b), LINES);
    uint32_t draw = 1;
    for (int i = 0; i < 2000; i++) {
        char text[40];
        int32_t want[64];
        int length = 1 + i % 39;
        for (int c = 0; c < length; c++) text[c] = (char)('a' + ((draw = draw * 1664525 + 1013904223) >> 30));
        struct kept k = {.n = 0};
        assert_ok(bpe_encode(b, text, length, keep, &k));
        assert_int_equal(k.n, merged_slowly(text, length, want));
        assert_memory_equal(k.at, want, (size_t)k.n * sizeof *want);
    }
    struct kept k = {.n = 0};
    assert_ok(bpe_encode(b, "<|endoftext|>\xff", 14, keep, &k));
    assert_true(k.n == 2 && k.at[0] == LINES && k.at[1] == 255);
    bpe_close(&b);
}

/* Its 2048 special tokens are named in groups. */
TEST(test_llama_4s_special_tokens_are_known) {
    static const char text[] = "<|eot|>a<|text_post_train_reserved_special_token_8|>"
                               "<|vision_reserved_special_token_1047|><|reserved_special_token_903|>";
    static const int32_t want[] = {200008, 'a', 200019, 201133, 202047};
    struct bpe *b = NULL;
    struct kept k = {.n = 0};
    assert_ok(bpe_open_folder(write_tiktoken("tokenizer.model", LLAMA4_LINES), &b));
    assert_int_equal(bpe_n_tokens(b), 202048);
    assert_int_equal(bpe_end_of_text(b), 200001);
    assert_ok(bpe_encode(b, text, sizeof text - 1, keep, &k));
    assert_int_equal(k.n, 5);
    assert_memory_equal(k.at, want, sizeof want);
    bpe_close(&b);
}

TEST(test_a_bad_tiktoken_file_is_refused) {
    static const struct { const char *line, *why; } bad[] = {
        {"YQ==\n", "line 50256: it has no blank"}, {"YQ== \n", "no blank with a number"},
        {"YQ== 12x\n", "its number is not one"},   {"YQ== 97\n", "its number has been there before"},
        {"YQ== 60000\n", "its number is beyond"},  {"Y!== 50256\n", "its token is not base64"},
        {" 50256\n", "its token is not base64"}};
    struct bpe *b = NULL;
    const char *path = test_path("few.tiktoken");
    FILE *f = fopen(path, "wb");
    fputs("YQ== 0\n", f);
    fclose(f);
    assert_fails(bpe_open_folder(path, &b), E_FORMAT, "few.tiktoken has 1 lines", "cl100k_base (100256)");
    assert_null(b);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        path = write_tiktoken("r50k.tiktoken", LINES);
        f = fopen(path, "r+b");
        char last[64];
        fseek(f, -32, SEEK_END);
        size_t n = fread(last, 1, 32, f);
        while (n > 1 && last[n - 2] != '\n') n--;              /* what is left is before the last line */
        long end = ftell(f) - 32 + (long)n - 1;
        assert_int_equal(ftruncate(fileno(f), end), 0);
        fseek(f, 0, SEEK_END);
        fputs(bad[i].line, f);
        fclose(f);
        assert_fails(bpe_open_folder(path, &b), E_FORMAT, "r50k.tiktoken", bad[i].why);
    }
}

TESTS(unit_test(test_a_folder_of_another_tokenizer_is_refused),
      unit_test(test_the_files_next_to_a_tokenizer_json_agree), unit_test(test_tiktokens_ranks_are_followed),
      unit_test(test_llama_4s_special_tokens_are_known), unit_test(test_a_bad_tiktoken_file_is_refused))
