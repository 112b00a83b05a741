/* ranks: 1  device: cpu */
#include "tests/test.h"

#include "lib/data/data.h"
#include "lib/data/data_write.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The fields of an index, so that a test can make any field wrong. */
struct recipe {
    const char *magic;
    uint64_t version;
    int code;
    uint64_t n_sequences, n_indices;
    int32_t lengths[8];
    int64_t pointers[8], indices[8];
    int n_lengths, n_pointers, n_i;      /* numbers of written lengths, pointers, indices */
    size_t cut, extra;                   /* bytes removed from, or added to, the end */
};

static const char *write_bytes(const char *name, const void *bytes, size_t n) {
    const char *path = test_path(name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
    return path;
}

static void write_index(const char *name, const struct recipe *r) {
    unsigned char file[512] = {0}, *at = file;
    unsigned char code = (unsigned char)r->code;
#define PUT(from, bytes) (memcpy(at, (from), (bytes)), at += (bytes))
    PUT(r->magic, 9);
    PUT(&r->version, 8);
    PUT(&code, 1);
    PUT(&r->n_sequences, 8);
    PUT(&r->n_indices, 8);
    PUT(r->lengths, 4 * (size_t)r->n_lengths);
    PUT(r->pointers, 8 * (size_t)r->n_pointers);
    PUT(r->indices, 8 * (size_t)r->n_i);
#undef PUT
    write_bytes(name, file, (size_t)(at - file) + r->extra - r->cut);
}

/* 3 sequences of u16 in 2 documents; the pointers give the order 30 40 | 10 20 | 50. */
static const uint16_t TOKENS[] = {10, 20, 30, 40, 50, 60};
static struct recipe good(void) {
    return (struct recipe){.magic = "MMIDIDX\0", .version = 1, .code = 8, .n_sequences = 3, .n_indices = 3,
                           .lengths = {2, 2, 1}, .pointers = {4, 0, 8},
                           .indices = {0, 2, 3}, .n_lengths = 3, .n_pointers = 3, .n_i = 3};
}

static enum status open_recipe(const struct recipe *r, const void *tokens, size_t bytes, struct data_file **file) {
    write_index("m.idx", r);
    return data_open(write_bytes("m.bin", tokens, bytes), file);
}

static void assert_tokens(const struct data_file *f, int64_t n, const int64_t *tokens) {
    assert_int_equal(data_n_tokens(f), n);
    for (int64_t i = 0; i < n; i++) assert_int_equal(data_token(f, i), tokens[i]);
}

TEST(test_sequences_come_in_the_indexs_order) {
    struct recipe r = good();
    struct data_file *file = NULL;
    assert_ok(open_recipe(&r, TOKENS, sizeof TOKENS, &file));
    assert_int_equal(data_format_of(file), DATA_MEGATRON);
    assert_string_equal(data_format_name(file), "Megatron, u16 tokens");
    assert_int_equal(data_vocab(file), 0);
    assert_int_equal(data_n_documents(file), 2);
    assert_int_equal(data_n_sequences(file), 3);
    assert_tokens(file, 5, (const int64_t[]){30, 40, 10, 20, 50});
    data_close(&file);
    int64_t order[3] = {0, 4, 8};   /* adjacent, with an empty sequence in between */
    memcpy(r.pointers, order, sizeof order);
    r.lengths[1] = 0;
    assert_ok(open_recipe(&r, TOKENS, sizeof TOKENS, &file));
    assert_tokens(file, 3, (const int64_t[]){10, 20, 50});
    data_close(&file);
}

TEST(test_samples_go_over_the_edges_of_sequences) {
    struct recipe r = good();
    struct data_file *file = NULL;
    struct data_split all;
    int32_t tokens[4], targets[4];
    assert_ok(open_recipe(&r, TOKENS, sizeof TOKENS, &file));
    assert_ok(data_split_whole(file, 4, &all));
    assert_ok(data_sample(&all, 0, 100, tokens, targets));
    assert_memory_equal(tokens, ((const int32_t[]){30, 40, 10, 20}), sizeof tokens);
    assert_memory_equal(targets, ((const int32_t[]){40, 10, 20, 50}), sizeof targets);
    data_close(&file);
}

TEST(test_every_integer_element_is_read) {
    struct recipe r = {.magic = "MMIDIDX\0", .version = 1, .n_sequences = 1, .n_indices = 2, .lengths = {2},
                       .indices = {0, 1}, .n_lengths = 1, .n_pointers = 1, .n_i = 2};
    const uint8_t u8[] = {200, 1};
    const int8_t i8[] = {-3, 1};
    const int16_t i16[] = {-300, 300};
    const int32_t i32[] = {70000, -1};
    const int64_t i64[] = {INT64_C(1) << 40, 7};
    const uint16_t u16[] = {65535, 2};
    const struct { int code; const void *tokens; size_t bytes; int64_t want[2]; } rows[] = {
        {1, u8, 2, {200, 1}}, {2, i8, 2, {-3, 1}}, {3, i16, 4, {-300, 300}}, {4, i32, 8, {70000, -1}},
        {5, i64, 16, {INT64_C(1) << 40, 7}}, {8, u16, 4, {65535, 2}}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct data_file *file = NULL;
        r.code = rows[i].code;
        assert_ok(open_recipe(&r, rows[i].tokens, rows[i].bytes, &file));
        assert_tokens(file, 2, rows[i].want);
        data_close(&file);
    }
}

TEST(test_a_token_that_no_model_has_is_refused) {
    struct recipe r = {.magic = "MMIDIDX\0", .version = 1, .code = 5, .n_sequences = 1, .n_indices = 2, .lengths = {2},
                       .indices = {0, 1}, .n_lengths = 1, .n_pointers = 1, .n_i = 2};
    const int64_t wide[] = {(INT64_C(1) << 32) + 7, 1}, negative[] = {1, -2};
    struct data_file *file = NULL;
    struct data_split all;
    int32_t tokens[1], targets[1];
    assert_ok(open_recipe(&r, wide, sizeof wide, &file));
    assert_ok(data_split_whole(file, 1, &all));
    assert_fails(data_sample(&all, 0, 100, tokens, targets), E_DATA, "m.bin", "4294967303", "position 0", "vocab=100");
    data_close(&file);
    assert_ok(open_recipe(&r, negative, sizeof negative, &file));
    assert_ok(data_split_whole(file, 1, &all));
    assert_fails(data_sample(&all, 0, 100, tokens, targets), E_DATA, "m.bin", "-2", "position 1", "negative");
    data_close(&file);
}

/* ---- untrusted indices ---- */

#define assert_refused(change, ...)                                                                                    \
    do {                                                                                                               \
        struct recipe r = good();                                                                                      \
        struct data_file *file_ = NULL;                                                                                \
        change;                                                                                                        \
        assert_fails(open_recipe(&r, TOKENS, sizeof TOKENS, &file_), E_FORMAT, "m.idx", __VA_ARGS__);                  \
        assert_null(file_);                                                                                            \
    } while (0)

TEST(test_a_header_must_be_whole_and_known) {
    assert_refused(r.magic = "MMIDIDY\0", "no Megatron index", "m.bin");
    assert_refused(r.cut = 12 * 3 + 8 * 3 + 1, "truncated", "33 bytes", "34");
    assert_refused(r.cut = 12 * 3 + 8 * 3 + 30, "no Megatron index");
    assert_refused(r.version = 2, "version 2", "version 1");
    assert_refused(r.version = UINT64_MAX, "version 18446744073709551615");
    assert_refused(r.code = 0, "type 0", "1 to 8");
    assert_refused(r.code = 9, "type 9", "1 to 8");
    assert_refused(r.code = 6, "f64", "integers");
    assert_refused(r.code = 7, "f32", "integers");
}

TEST(test_counts_are_held_against_the_size) {
    assert_refused(r.n_sequences = 0, "no sequences");
    assert_refused(r.n_sequences = 6, "truncated", "6 sequences", "60 bytes");
    assert_refused(r.n_sequences = UINT64_C(1) << 62, "truncated");          /* times 4: 0 */
    assert_refused(r.n_sequences = UINT64_C(0x1555555555555556), "truncated"); /* times 12: 8 */
    assert_refused(r.n_indices = UINT64_C(1) << 61, "truncated");            /* times 8: 0 */
    assert_refused(r.n_indices = 2, "too long", "52 bytes", "60");
    assert_refused(r.cut = 1, "truncated", "59 bytes");
    assert_refused(r.extra = 3, "too long", "63", "several modes");
    assert_refused(r.extra = 4, "too long", "64");
}

TEST(test_sequences_lie_inside_the_bin) {
    assert_refused(r.lengths[1] = -1, "sequence 1", "-1 tokens");
    assert_refused(r.pointers[2] = 12, "sequence 2", "byte 12", "12 bytes");
    assert_refused(r.pointers[2] = -2, "sequence 2", "byte -2");
    assert_refused(r.pointers[2] = INT64_MAX - 1, "sequence 2");           /* plus its bytes: negative */
    assert_refused(r.pointers[0] = 1, "sequence 0", "byte 1");             /* in the middle of a token */
    assert_refused(r.lengths[0] = 5, "sequence 0", "5 tokens of 2 bytes", "m.bin has 12");
    assert_refused(r.lengths[0] = INT32_MAX, "sequence 0", "2147483647");
    assert_refused(memset(r.lengths, 0, sizeof r.lengths), "empty");
}

TEST(test_documents_are_in_order) {
    assert_refused(r.indices[0] = 1, "document index 0 is 1", "begin with 0");
    assert_refused(r.indices[1] = -1, "document index 1 is -1");
    assert_refused(r.indices[2] = 1, "document index 2 is 1, after 2", "never fall");
    assert_refused(r.indices[2] = 4, "document index 2 is 4", "3 sequences");
}

TEST(test_an_index_is_no_data) {
    struct recipe r = good();
    struct data_file *file = NULL;
    write_index("m.idx", &r);
    assert_fails(data_open(test_path("m.idx"), &file), E_FORMAT, "m.idx", "index", ".bin");
    const char *lonely = write_bytes("lonely.bin", "some text", 9); /* no index: text */
    assert_ok(data_open(lonely, &file));
    assert_int_equal(data_format_of(file), DATA_TEXT);
    data_close(&file);
}

/* ---- writing ---- */

static void write_two_documents(const char *path, enum data_target target, int64_t vocab) {
    struct data_writer *w = NULL;
    assert_ok(data_write_create(path, target, vocab, &w));
    assert_ok(data_write_tokens(w, (const int32_t[]){1, 2, 3}, 3));
    assert_ok(data_write_end_document(w));
    assert_ok(data_write_end_document(w)); /* an empty document is not recorded */
    assert_ok(data_write_tokens(w, (const int32_t[]){(int32_t)vocab - 1}, 1));
    assert_int_equal(data_write_n_tokens(w), 4);
    assert_ok(data_write_finish(&w));
    assert_null(w);
}

TEST(test_what_is_written_is_read) {
    const struct { enum data_target target; int64_t vocab; const char *name; } rows[] = {
        {DATA_TO_MEGATRON, 65499, "Megatron, u16 tokens"}, {DATA_TO_MEGATRON, 65500, "Megatron, i32 tokens"},
        {DATA_TO_LLMC, 65536, "llm.c, u16 tokens"}, {DATA_TO_LLMC, 65537, "llm.c, u32 tokens"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct data_file *file = NULL;
        char path[256];
        snprintf(path, sizeof path, "%s", test_path("written.bin"));
        write_two_documents(path, rows[i].target, rows[i].vocab);
        assert_ok(data_open(path, &file));
        assert_string_equal(data_format_name(file), rows[i].name);
        assert_tokens(file, 4, (const int64_t[]){1, 2, 3, rows[i].vocab - 1});
        if (rows[i].target == DATA_TO_MEGATRON) assert_int_equal(data_n_documents(file), 2);
        data_close(&file);
    }
}

TEST(test_nothing_is_left_of_what_fails) {
    struct data_writer *w = NULL;
    char path[256], beside[300];
    snprintf(path, sizeof path, "%s", test_path("failed.bin"));
    snprintf(beside, sizeof beside, "%s.tmp-%ld", path, (long)getpid());
    assert_ok(data_write_create(path, DATA_TO_MEGATRON, 256, &w));
    assert_int_equal(access(beside, F_OK), 0);
    assert_fails(data_write_tokens(w, (const int32_t[]){256}, 1), E_INTERNAL, "token 256", "256");
    assert_fails(data_write_finish(&w), E_DATA, "no tokens", "failed.bin");
    assert_true(access(path, F_OK) != 0 && access(beside, F_OK) != 0);
    assert_fails(data_write_create(test_path("failed.txt"), DATA_TO_MEGATRON, 256, &w), E_CONFIG, "failed.txt", ".bin");
    assert_fails(data_write_create("/nowhere/x.bin", DATA_TO_LLMC, 256, &w), E_IO, "/nowhere/x.bin", "No such file");
    assert_null(w);
    struct rlimit before, none = {0};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none.rlim_max = before.rlim_max;
    signal(SIGXFSZ, SIG_IGN);
    assert_ok(data_write_create(path, DATA_TO_LLMC, 256, &w));
    assert_ok(data_write_tokens(w, (const int32_t[]){1}, 1));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);     /* writes fail as on a full disk */
    enum status status = data_write_finish(&w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_fails(status, E_IO, "failed.bin", "File too large");
    assert_true(access(path, F_OK) != 0 && access(beside, F_OK) != 0);
}

/* ---- several files ---- */

TEST(test_several_files_are_one_stream) {
    struct data_file *file = NULL;
    char b[256], a[256], names[600], pattern[256];
    int64_t place;
    snprintf(b, sizeof b, "%s", write_bytes("list-b.txt", "BBB", 3));
    snprintf(a, sizeof a, "%s", write_bytes("list-a.txt", "AA", 2));
    snprintf(names, sizeof names, "%s,%s", b, a);
    snprintf(pattern, sizeof pattern, "%s", test_path("list-?.txt"));
    const char *const both[] = {names, pattern};
    for (int i = 0; i < 2; i++) {
        assert_ok(data_open(both[i], &file));
        assert_int_equal(data_n_files(file), 2);
        assert_tokens(file, 5, (const int64_t[]){'A', 'A', 'B', 'B', 'B'}); /* sorted by name, whatever the order */
        assert_string_equal(data_file_of(file, 4, &place), b);
        assert_int_equal(place, 2);
        assert_string_equal(data_path(file), both[i]);
        data_close(&file);
    }
}

TEST(test_a_list_names_files_of_one_format_once) {
    struct data_file *file = NULL;
    char text[256], names[900];
    snprintf(text, sizeof text, "%s", write_bytes("list-c.txt", "C", 1));
    write_two_documents(test_path("list-d.bin"), DATA_TO_LLMC, 256);
    snprintf(names, sizeof names, "%s,%s", text, test_path("list-d.bin"));
    assert_fails(data_open(names, &file), E_DATA, "list-c.txt", "list-d.bin", "several formats");
    snprintf(names, sizeof names, "%s,%s", text, text);
    assert_fails(data_open(names, &file), E_DATA, "list-c.txt", "twice");
    snprintf(names, sizeof names, "%s,", text);
    assert_fails(data_open(names, &file), E_DATA, "empty name");
    snprintf(names, sizeof names, "%s,%s", text, test_path("missing.txt"));
    assert_fails(data_open(names, &file), E_DATA, "missing.txt", "No such file");
    assert_fails(data_open(test_path("nothing-*.txt"), &file), E_DATA, "no file fits", "nothing-*.txt");
    assert_null(file);
    const char *odd = write_bytes("a,b*.txt", "xy", 2); /* an existing file is no pattern */
    assert_ok(data_open(odd, &file));
    assert_int_equal(data_n_tokens(file), 2);
    data_close(&file);
}

TESTS(unit_test(test_sequences_come_in_the_indexs_order), unit_test(test_samples_go_over_the_edges_of_sequences),
      unit_test(test_every_integer_element_is_read), unit_test(test_a_token_that_no_model_has_is_refused),
      unit_test(test_a_header_must_be_whole_and_known), unit_test(test_counts_are_held_against_the_size),
      unit_test(test_sequences_lie_inside_the_bin), unit_test(test_documents_are_in_order),
      unit_test(test_an_index_is_no_data), unit_test(test_what_is_written_is_read),
      unit_test(test_nothing_is_left_of_what_fails), unit_test(test_several_files_are_one_stream),
      unit_test(test_a_list_names_files_of_one_format_once))
