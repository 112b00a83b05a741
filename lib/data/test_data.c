/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "lib/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *write_file(const char *name, const void *bytes, size_t n) {
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

/* The header's number of tokens is n_said; then follow token_bytes bytes of tokens. */
static const char *write_llmc(int magic, int version, int n_said, const void *tokens, size_t token_bytes) {
    unsigned char file[1024 + 64] = {0};
    int32_t header[3] = {magic, version, n_said};
    memcpy(file, header, sizeof header);
    memcpy(file + 1024, tokens, token_bytes);
    return write_file("tokens.bin", file, 1024 + token_bytes);
}

static struct data_file *open_file(const char *path) {
    struct data_file *file = NULL;
    assert_ok(data_open(path, &file));
    assert_string_equal(data_path(file), path);
    return file;
}

static struct data_file *open_text(const char *text) {
    return open_file(write_file("text.txt", text, strlen(text)));
}

TEST(test_text_is_bytes) {
    struct data_file *file = open_text("na\xc3\xafve\n");
    const int bytes[] = {'n', 'a', 0xc3, 0xaf, 'v', 'e', '\n'};
    assert_int_equal(data_format_of(file), DATA_TEXT);
    assert_int_equal(data_vocab(file), 256);
    assert_int_equal(data_n_tokens(file), 7);
    for (int i = 0; i < 7; i++) assert_int_equal(data_token(file, i), bytes[i]);
    data_close(&file);
    assert_null(file);
}

TEST(test_one_byte_is_text) {
    struct data_file *file = open_text("x");
    assert_int_equal(data_format_of(file), DATA_TEXT);
    assert_int_equal(data_n_tokens(file), 1);
    data_close(&file);
}

TEST(test_llmc_u16) {
    const uint16_t tokens[] = {50256, 0, 65535};
    struct data_file *file = open_file(write_llmc(20240520, 1, 3, tokens, sizeof tokens));
    assert_int_equal(data_format_of(file), DATA_LLMC_U16);
    assert_int_equal(data_vocab(file), 0);
    assert_int_equal(data_n_tokens(file), 3);
    for (int i = 0; i < 3; i++) assert_int_equal(data_token(file, i), tokens[i]);
    data_close(&file);
}

TEST(test_llmc_u32) {
    const uint32_t tokens[] = {128000, 7};
    struct data_file *file = open_file(write_llmc(20240801, 7, 2, tokens, sizeof tokens));
    assert_int_equal(data_format_of(file), DATA_LLMC_U32);
    assert_int_equal(data_n_tokens(file), 2);
    assert_int_equal(data_token(file, 0), 128000);
    assert_int_equal(data_token(file, 1), 7);
    data_close(&file);
}

TEST(test_llmc_size_must_match_its_header) {
    const uint16_t tokens[4] = {1, 2, 3, 4};
    struct data_file *file = NULL;
    /* The file has 1024 + 8 bytes. 5 tokens need 1024 + 10, and 3 tokens need 1024 + 6. */
    assert_fails(data_open(write_llmc(20240520, 1, 5, tokens, 8), &file), E_FORMAT, "truncated", "1034", "1032",
                 "again");
    assert_null(file);
    assert_fails(data_open(write_llmc(20240520, 1, 3, tokens, 8), &file), E_FORMAT, "too long", "1030", "1032");
    assert_fails(data_open(write_llmc(20240520, 1, 0, tokens, 0), &file), E_FORMAT, "0 tokens", "at least 1");
    assert_fails(data_open(write_llmc(20240520, 1, -4, tokens, 8), &file), E_FORMAT, "-4 tokens");
    assert_fails(data_open(write_llmc(20240801, 7, 2147483647, tokens, 8), &file), E_FORMAT, "8589935612", "1032");
    const int32_t magic_alone = 20240520;
    assert_fails(data_open(write_file("cut.bin", &magic_alone, 4), &file), E_FORMAT, "truncated", "4 bytes", "1024");
}

TEST(test_llmc_version_must_be_known) {
    const uint16_t tokens[2] = {1, 2};
    struct data_file *file = NULL;
    assert_fails(data_open(write_llmc(20240520, 2, 2, tokens, 4), &file), E_FORMAT, "version 2", "version 1");
    assert_fails(data_open(write_llmc(20240801, 1, 1, tokens, 4), &file), E_FORMAT, "version 1", "version 7");
}

TEST(test_a_path_must_be_a_readable_file) {
    struct data_file *file = NULL;
    assert_fails(data_open(test_path("nowhere.txt"), &file), E_DATA, "nowhere.txt", "No such file", "--data");
    assert_null(file);
    assert_fails(data_open("/tmp", &file), E_DATA, "/tmp", "directory");
    assert_fails(data_open("/dev/null", &file), E_DATA, "/dev/null", "device");
    assert_fails(data_open(write_file("empty.txt", "", 0), &file), E_DATA, "empty.txt", "0 bytes", "seq+1");
    const char *pipe_path = test_path("pipe");
    assert_int_equal(mkfifo(pipe_path, 0600), 0);
    assert_fails(data_open(pipe_path, &file), E_DATA, "pipe"); /* without waiting for a writer */
    if (geteuid() == 0) return;                                /* root can read everything */
    const char *secret = write_file("secret.txt", "x", 1);
    assert_int_equal(chmod(secret, 0), 0);
    assert_fails(data_open(secret, &file), E_DATA, "secret.txt", "Permission denied");
}

TEST(test_a_sample_is_tokens_and_targets_one_further) {
    struct data_file *file = open_text("abcdefghi"); /* 9 tokens, T = 4: two samples, the last target is the last
                                                      * token */
    struct data_split all;
    int32_t tokens[4], targets[4];
    assert_ok(data_split_whole(file, 4, &all));
    assert_int_equal(data_split_samples(&all), 2);
    for (int i = 0; i < 2; i++) {
        assert_ok(data_sample(&all, i, 256, tokens, targets));
        for (int t = 0; t < 4; t++) assert_int_equal(tokens[t], "abcdefghi"[4 * i + t]);
        for (int t = 0; t < 4; t++) assert_int_equal(targets[t], "abcdefghi"[4 * i + t + 1]);
    }
    assert_fails(data_sample(&all, 2, 256, tokens, targets), E_INTERNAL, "sample 2 of 2");
    assert_fails(data_sample(&all, -1, 256, tokens, targets), E_INTERNAL, "sample -1");
    data_close(&file);
}

TEST(test_the_number_of_samples_counts_the_last_target) {
    struct data_file *file = open_text("abcdefgh"); /* 8 tokens: the second sample's last target is missing */
    struct data_split all;
    assert_ok(data_split_whole(file, 4, &all));
    assert_int_equal(data_split_samples(&all), 1);
    assert_ok(data_split_whole(file, 1, &all));
    assert_int_equal(data_split_samples(&all), 7);
    all.n_tokens = 0;
    assert_int_equal(data_split_samples(&all), 0);
    data_close(&file);
}

TEST(test_the_tail_is_validation) {
    struct data_file *file = open_text("0123456789abcdefghij");
    struct data_split train, val;
    int32_t tokens[3], targets[3];
    assert_ok(data_split_tail(file, 3, 0.25, &train, &val));
    assert_int_equal(train.n_tokens, 15);
    assert_int_equal(val.first, 15);
    assert_int_equal(val.n_tokens, 5);
    assert_ok(data_sample(&val, 0, 256, tokens, targets));
    assert_int_equal(tokens[0], 'f');
    assert_int_equal(targets[2], 'i');
    assert_ok(data_split_tail(file, 3, 0, &train, &val));
    assert_int_equal(train.n_tokens, 20);
    assert_int_equal(data_split_samples(&val), 0);
    data_close(&file);
}

TEST(test_a_part_holds_a_sample) {
    struct data_file *file = open_text("0123456789abcdefghij");
    struct data_split train, val;
    assert_fails(data_split_whole(file, 20, &train), E_DATA, "text.txt", "20 tokens", "21", "--seq");
    assert_ok(data_split_whole(file, 19, &train));
    assert_fails(data_split_tail(file, 3, 0.1, &train, &val), E_DATA, "validation", "2 of 20", "0.1", "seq+1 = 4");
    assert_fails(data_split_tail(file, 3, 0.9, &train, &val), E_DATA, "training", "2 of 20");
    assert_fails(data_split_tail(file, 20, 0, &train, &val), E_DATA, "20 tokens", "21");
    assert_fails(data_split_tail(file, 3, 1.0, &train, &val), E_CONFIG, "val-fraction=1", "[0, 1)");
    assert_fails(data_split_tail(file, 3, NAN, &train, &val), E_CONFIG, "val-fraction");
    assert_fails(data_split_whole(file, 0, &train), E_CONFIG, "seq=0");
    data_close(&file);
}

/* The set of samples in an epoch, one bit each. A permutation of n < 64 samples sets n bits. */
static uint64_t epoch_set(const struct data_split *split, uint64_t seed, int epoch) {
    int64_t n = data_split_samples(split);
    uint64_t seen = 0;
    for (int64_t s = 0; s < n; s++) seen |= UINT64_C(1) << data_shuffled(split, seed, epoch * n + s);
    return seen;
}

static int n_same_place(const struct data_split *split, uint64_t seed, int64_t s, uint64_t other_seed,
                        int64_t other_s) {
    int n = 0;
    for (int64_t i = 0; i < data_split_samples(split); i++)
        n += data_shuffled(split, seed, s + i) == data_shuffled(split, other_seed, other_s + i);
    return n;
}

TEST(test_each_epoch_is_a_new_permutation) {
    char text[51];
    memset(text, 'x', 50);
    text[50] = 0;
    struct data_file *file = open_text(text);
    struct data_split all;
    assert_ok(data_split_whole(file, 1, &all)); /* 49 samples */
    uint64_t every_sample = (UINT64_C(1) << 49) - 1;
    for (int epoch = 0; epoch < 5; epoch++) assert_true(epoch_set(&all, 42, epoch) == every_sample);
    /* Two unrelated permutations agree in one place on average (Poisson): 12 or more has probability 1e-9 */
    assert_true(n_same_place(&all, 42, 0, 42, 49) < 12);
    assert_true(n_same_place(&all, 42, 0, 43, 0) < 12);
    assert_int_equal(n_same_place(&all, 42, 98, 42, 98), 49);
    data_close(&file);
}

TEST(test_a_token_beyond_the_vocabulary_is_refused) {
    const uint32_t wide[] = {5, 6, 3000000000u};
    int32_t tokens[2], targets[2];
    struct data_split all;
    struct data_file *file = open_file(write_llmc(20240801, 7, 3, wide, sizeof wide));
    assert_ok(data_split_whole(file, 2, &all));
    assert_fails(data_sample(&all, 0, 6, tokens, targets), E_DATA, "token 6 ", "position 1 ", "vocab=6",
                 "--vocab 3000000001", "tokens.bin");
    assert_fails(data_sample(&all, 0, 50257, tokens, targets), E_DATA, "3000000000", "position 2");
    data_close(&file);
    file = open_text("ab\xff");
    assert_ok(data_split_whole(file, 2, &all));
    assert_ok(data_sample(&all, 0, 256, tokens, targets));
    assert_int_equal(targets[1], 255);
    data_close(&file);
}

static uint64_t hash_of(const char *path) {
    struct data_file *file = open_file(path);
    uint64_t hash = data_hash(file);
    data_close(&file);
    return hash;
}

/* The hash of n bytes of value 7, except an 8 at `other`. */
static uint64_t hash_of_sevens(size_t n, size_t other) {
    char *text = malloc(n);
    memset(text, 7, n);
    text[other] = 8;
    uint64_t hash = hash_of(write_file("sevens.txt", text, n));
    free(text);
    return hash;
}

/* The hash covers tokens, not bytes: one stream in three formats has one hash. It covers 2^18 tokens at each end. */
TEST(test_a_hash_tells_streams_from_one_another) {
    const uint16_t narrow[] = {'a', 'b', 'c'}, other[] = {'a', 'b', 'd'};
    const uint32_t wide[] = {'a', 'b', 'c'};
    uint64_t abc = hash_of(write_file("abc.txt", "abc", 3));
    assert_true(hash_of(write_llmc(20240520, 1, 3, narrow, sizeof narrow)) == abc);
    assert_true(hash_of(write_llmc(20240801, 7, 3, wide, sizeof wide)) == abc);
    assert_true(hash_of(write_llmc(20240520, 1, 3, other, sizeof other)) != abc);
    assert_true(hash_of(write_file("abc.txt", "abc\n", 4)) != abc);
    enum { N = 3 << 18, END = 1 << 18 };
    uint64_t first = hash_of_sevens(N, 0), middle = hash_of_sevens(N, N / 2);
    assert_true(first != middle && hash_of_sevens(N, END - 1) != middle && hash_of_sevens(N, N - 1) != middle);
    assert_true(hash_of_sevens(N, N - END) != middle && hash_of_sevens(N, END) == middle);
    assert_true(hash_of_sevens(N + 1, N / 2) != middle);
}

TEST(test_what_is_written_in_its_place_is_noticed) {
    struct data_file *file;
    const char *path = write_file("place.txt", "abc", 3);
    assert_ok(data_open(path, &file));
    FILE *again = fopen(path, "r+");
    assert_non_null(again);
    assert_ok(data_check_hash(file));
    assert_true(fputc('x', again) == 'x' && fclose(again) == 0);
    assert_fails(data_check_hash(file), E_DATA, "place.txt was written to", "its tokens are others", "a checkpoint");
    data_close(&file);
}

TESTS(unit_test(test_what_is_written_in_its_place_is_noticed), unit_test(test_text_is_bytes),
      unit_test(test_one_byte_is_text), unit_test(test_llmc_u16), unit_test(test_llmc_u32),
      unit_test(test_llmc_size_must_match_its_header), unit_test(test_llmc_version_must_be_known),
      unit_test(test_a_path_must_be_a_readable_file), unit_test(test_a_sample_is_tokens_and_targets_one_further),
      unit_test(test_the_number_of_samples_counts_the_last_target), unit_test(test_the_tail_is_validation),
      unit_test(test_a_part_holds_a_sample), unit_test(test_each_epoch_is_a_new_permutation),
      unit_test(test_a_token_beyond_the_vocabulary_is_refused), unit_test(test_a_hash_tells_streams_from_one_another))
