/* ranks: 1  device: cpu */
/* A folder is refused, with the reason, if files next to vocab.json and merges.txt describe another tokenizer than
 * GPT-2's. */
#include "tests/test.h"

#include "lib/data/bpe.h"
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

#define PIECES(more) "\"pre_tokenizer\": {\"type\": \"ByteLevel\", " more "\"trim_offsets\": true}"
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
    {"tokenizer.json",
     "{\"normalizer\": null, " PIECES(
         "\"add_prefix_space\": false, ") ", \"model\": {\"type\": \"BPE\", "
                                          "\"dropout\": null, \"end_of_word_suffix\": \"\", \"byte_fallback\": false}, "
                                          "\"added_tokens\": [{\"content\": "
                                          "\"<|endoftext|>\"}]}",
     NULL},
    {"tokenizer.json", "{\"normalizer\": {\"type\": \"NFC\"}, " PIECES("") "}", "the normalizer is NFC"},
    {"tokenizer.json", "{\"pre_tokenizer\": {\"type\": \"Sequence\"}}", "the pre_tokenizer is Sequence"},
    {"tokenizer.json", "{\"pre_tokenizer\": null}", "the pre_tokenizer is missing"},
    {"tokenizer.json", "{" PIECES("\"add_prefix_space\": true, ") "}", "add_prefix_space is true"},
    {"tokenizer.json", "{" PIECES("\"use_regex\": false, ") "}", "use_regex is false"},
    {"tokenizer.json", "{" PIECES("") ", \"model\": {\"type\": \"Unigram\"}}", "the model is Unigram"},
    {"tokenizer.json", "{" PIECES("") ", \"model\": {\"end_of_word_suffix\": \"</w>\"}}", "end_of_word_suffix is set"},
    {"tokenizer.json", "{" PIECES("") ", \"model\": {\"ignore_merges\": true}}", "ignore_merges is true"},
    {"tokenizer.json", "{" PIECES("") ", \"added_tokens\": [{\"content\": \"<pad>\"}]}", "a special token is <pad>"},
};

TEST(test_a_folder_of_another_tokenizer_is_refused) {
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        if (CASES[i].why) assert_fails(open_with(CASES[i].name, CASES[i].text), E_FORMAT, CASES[i].name, CASES[i].why);
        else assert_ok(open_with(CASES[i].name, CASES[i].text));
}

TESTS(unit_test(test_a_folder_of_another_tokenizer_is_refused))
