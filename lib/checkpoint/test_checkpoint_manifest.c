/* ranks: 1  device: cpu */
/* An untrusted checkpoint: values in its manifest and in its files' metadata that must be refused. */
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_piece.h"
#include "tests/test.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *in_folder(const char *name) {
    static char path[CHECKPOINT_PATH_MAX + 64];
    const char *folder = test_path("step");
    assert_true(mkdir(folder, 0777) == 0 || access(folder, W_OK) == 0);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text) {
    FILE *f = fopen(in_folder(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

/* Write a manifest with these counts and shards, and read it. */
static enum status read_with(struct manifest *m, const char *step, const char *samples, const char *shards) {
    char text[2048];
    snprintf(text, sizeof text,
             "{\"format\": \"trivium checkpoint\", \"version\": 1, \"step\": %s, \"update\": \"2\", \"samples\": %s, "
             "\"seed\": \"7\", \"shards\": [%s]}",
             step, samples, shards);
    write_file("manifest.json", text);
    return manifest_read(m, test_path("step"));
}

#define SHARD(name, bytes, hash) "{\"file\": \"" name "\", \"bytes\": \"" bytes "\", \"xxh3\": \"" hash "\"}"
#define GOOD SHARD("rank-00000.safetensors", "40", "00000000000000ff")

static void refused(const char *step, const char *samples, const char *shards, const char *why) {
    struct manifest m;
    assert_fails(read_with(&m, step, samples, shards), E_FORMAT, "step/manifest.json", why);
    manifest_fini(&m);
}

TEST(test_a_manifest_is_read) {
    struct manifest m;
    assert_ok(read_with(&m, "\"3\"", "\"2305843009213693951\"", GOOD "," SHARD("b", "0", "ffffffffffffffff")));
    assert_true(m.step == 3 && m.update == 2 && m.samples == INT64_MAX / 4 && m.seed == 7 && m.n == 2);
    assert_true(m.shards[0].bytes == 40 && m.shards[0].hash == 255 && m.shards[1].hash == UINT64_MAX);
    manifest_fini(&m);
}

/* ---- damage: a manifest with a checksum, in which one value is changed ---- */

static const char SEALED[] =
    "{\"format\": \"trivium checkpoint\", \"version\": 2, \"step\": \"30\", \"update\": \"28\", "
    "\"samples\": \"240\", \"seed\": \"7\", "
    "\"model\": {\"layers\": 2, \"hidden\": 64, \"heads\": 4, \"seq\": 32, \"vocab\": 256}, \"layout\": {\"dp\": 1}, "
    "\"adamw\": {\"beta1\": 0.9, \"eps\": 1e-08}, \"techniques\": {\"mixed_precision\": {\"loss_scale\": 65536.0}}, "
    "\"shards\": [" GOOD "], \"xxh3\": \"%016llx\"}";

/* Write the manifest with its right checksum. */
static void seal(char text[2048]) {
    uint64_t hash = 0;
    snprintf(text, 2048, SEALED, 0ULL);
    json_t *json = json_loads(text, 0, NULL);
    assert_ok(manifest_hash(json, &hash));
    json_decref(json);
    snprintf(text, 2048, SEALED, (unsigned long long)hash);
}

/* Replace the first `from` in the text by `to`. */
static void change(char text[2048], const char *from, const char *to) {
    char rest[2048];
    char *at = strstr(text, from);
    assert_non_null(at);
    snprintf(rest, sizeof rest, "%s", at + strlen(from));
    snprintf(at, (size_t)(text + 2048 - at), "%s%s", to, rest);
}

TEST(test_a_changed_manifest_is_refused) {
    static const struct { const char *from, *to, *why; } changes[] = {
        {"\"step\": \"30\"", "\"step\": \"31\"", "is damaged"}, {"\"28\"", "\"29\"", "is damaged"},
        {"\"28\"", "\"9000000000000000\"", "is damaged"}, {"\"240\"", "\"248\"", "is damaged"},
        {"\"7\"", "\"8\"", "is damaged"}, {"\"layers\": 2", "\"layers\": 3", "is damaged"},
        {"\"heads\": 4", "\"heads\": 8", "is damaged"}, {"\"dp\": 1", "\"dp\": 2", "is damaged"},
        {"0.9", "0.8", "is damaged"}, {"1e-08", "1e-07", "is damaged"}, {"65536.0", "32768.0", "is damaged"},
        {"\"40\"", "\"41\"", "is damaged"}, {"ff\"}", "fe\"}", "is damaged"},
        {"rank-00000", "rank-00001", "is damaged"},
        {"\"samples\"", "\"sampler\"", "sampler"}, {"], \"xxh3\"", "], \"xxh4\"", "xxh4"},
        {"\"version\": 2", "\"version\": 1", "xxh3"}, {"\"version\": 2", "\"version\": 3", "is damaged"},
        {"\"version\": 2", "\"version\": 4", "version 4"}, {"\"adamw\"", "\"data\": {}, \"adamw\"", "member data"},
        {"\"seed\"", "\"holds\": \"weights\", \"seed\"", "is damaged"}, {"\"seed\": \"7\", ", "", "is damaged"},
        {"\"techniques\"", "\"more\": [], \"techniques\"", "more"}, {"\"adamw\"", "adamw", "is not JSON"},
        {"\"seed\"", "\"step\": \"30\", \"seed\"", "is not JSON"}, {"trivium", "quadrivium", "is not the manifest"}};
    char text[2048];
    struct manifest m;
    seal(text);
    write_file("manifest.json", text);
    assert_ok(manifest_read(&m, test_path("step")));
    manifest_fini(&m);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        seal(text);
        change(text, changes[i].from, changes[i].to);
        write_file("manifest.json", text);
        assert_fails(manifest_read(&m, test_path("step")), E_FORMAT, "step/manifest.json", changes[i].why);
        manifest_fini(&m);
    }
    seal(text);
    for (size_t n = strlen(text) - 1; n > 0; n -= n < 97 ? n : 97) {   /* truncated at many places */
        seal(text);
        text[n] = 0;
        write_file("manifest.json", text);
        assert_fails(manifest_read(&m, test_path("step")), E_FORMAT, "step/manifest.json", "is not JSON");
        manifest_fini(&m);
    }
}

/* Version 1 has no checksum. Impossible values are still refused. */
TEST(test_a_manifest_without_a_checksum_is_read_with_care) {
    struct manifest m;
    assert_ok(read_with(&m, "\"2\"", "\"5\"", GOOD));
    manifest_fini(&m);
    refused("\"1\"", "\"5\"", GOOD, "2 updates after 1 step");
    refused("\"3\", \"more\": 7", "\"5\"", GOOD, "more");
}

/* JSON takes 50 times its size in memory, on every rank, so the limit of a manifest's size depends on its shards. */
TEST(test_a_manifest_is_as_large_as_its_shards_allow) {
    enum { SHARDS = 4300 };                                          /* of 1 kB each: more than 4 MiB */
    char name[32], text[2048];
    struct manifest m;
    seal(text);
    write_file("manifest.json", text);
    FILE *f = fopen(in_folder("manifest.json"), "a");
    fprintf(f, "%*s", 4 << 20, "");
    fclose(f);
    assert_fails(manifest_read(&m, test_path("step")), E_FORMAT, "step/manifest.json has", "limit is 4194304");
    manifest_fini(&m);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "rank-%05d.safetensors", i);
        close(open(in_folder(name), O_WRONLY | O_CREAT, 0666));
    }
    assert_ok(manifest_read(&m, test_path("step")));
    manifest_fini(&m);
    for (int i = 0; i < SHARDS; i++) {
        snprintf(name, sizeof name, "rank-%05d.safetensors", i);
        unlink(in_folder(name));
    }
}

/* strtoull accepts all of these except the large numbers; it reads -18446744073709551613 as 3. */
TEST(test_a_manifests_counts_are_digits_and_bounded) {
    const char *const wrong[] = {"3", "\"\"", "\" 3\"", "\"+3\"", "\"-3\"", "\" -18446744073709551613\"", "\"0x3\"",
                                 "\"3 \"", "\"3e2\"", "null", "\"2305843009213693952\"",
                                 "\"9223372036854775808\"", "\"18446744073709551616\""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        refused(wrong[i], "\"5\"", GOOD, "step is not a number in quotes");
        refused("\"3\"", wrong[i], GOOD, "samples is not a number in quotes");
    }
    refused("\"3\"", "\"5\"", SHARD("a", "-1", "0"), "bytes is not a number");
    refused("\"3\"", "\"5\"", SHARD("a", "1", "0x1"), "xxh3 is not");
    refused("\"3\"", "\"5\"", SHARD("a", "1", "fffffffffffffffff"), "xxh3 is not");
}

TEST(test_shards_have_plain_names_and_each_once) {
    const char *const wrong[] = {SHARD("", "1", "0"), SHARD("..", "1", "0"), SHARD(".hidden", "1", "0"),
                                 SHARD("a/b", "1", "0"), SHARD("a b", "1", "0"),
                                 SHARD("a\\nb", "1", "0"), SHARD("\\u00e4", "1", "0"), "{}", "7",
                                 SHARD("0123456789012345678901234567890123456789012345678901234567890123", "1", "0")};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        refused("\"3\"", "\"5\"", wrong[i], "shard 0 has no name");
    refused("\"3\"", "\"5\"", "", "0 shards");
    refused("\"3\"", "\"5\"", GOOD "," SHARD("b", "1", "0") "," GOOD, "lists rank-00000.safetensors twice");
}

/* Opening a pipe without a writer would block forever. */
TEST(test_pipes_are_no_checkpoints) {
    struct manifest m;
    char *buffer = malloc(MANIFEST_CHECK_BYTES), step[CHECKPOINT_PATH_MAX];
    assert_ok(read_with(&m, "\"3\"", "\"5\"", SHARD("pipe", "0", "2d06800538d394c2")));   /* the hash of no bytes */
    assert_int_equal(mkfifo(in_folder("pipe"), 0666), 0);
    assert_fails(manifest_check_shard(&m, 0, buffer), E_DATA, "step/pipe", "not a regular file");
    manifest_fini(&m);
    unlink(in_folder("manifest.json"));
    assert_int_equal(rename(in_folder("pipe"), test_path("pipe")), 0);
    assert_int_equal(rename(test_path("pipe"), in_folder("manifest.json")), 0);
    assert_fails(manifest_read(&m, test_path("step")), E_DATA, "not a regular file");
    manifest_fini(&m);
    assert_int_equal(rename(in_folder("manifest.json"), test_path("pipe")), 0);
    assert_int_equal(rename(test_path("pipe"), in_folder("latest")), 0);
    assert_fails(checkpoint_resolve(test_path("step"), step), E_DATA, "neither manifest.json nor latest");
    unlink(in_folder("latest"));
    free(buffer);
}

/* ---- pieces ---- */

static enum status parse(const char *text, struct piece *p) {
    json_t *json = json_loads(text, 0, NULL);
    enum status status = checkpoint_piece_parse(json, "shard", p);
    json_decref(json);
    return status;
}

TEST(test_a_piece_lies_in_its_tensor) {
    struct piece p;
    assert_ok(parse("{\"box\": [[2, 3, 5], [0, 4, 4]], \"run\": [5, 7]}", &p));
    assert_true(p.box.n_axes == 2 && p.box.axis[0].first == 2 && p.first == 5 && p.n == 7);
    const char *const wrong[] =
        {"{\"box\": [[3, 3, 5]], \"run\": [0, 3]}",
         "{\"box\": [[0, 6, 5]], \"run\": [0, 3]}",
         "{\"box\": [[0, 5, 5]], \"run\": [3, 3]}",
         "{\"box\": [[-1, 3, 5]], \"run\": [0, 3]}",
         "{\"box\": [[0, 3, 5]], \"run\": [-1, 3]}",
         "{\"box\": [[0, 3]], \"run\": [0, 3]}",
         "{\"box\": [[0, 1.5, 5]], \"run\": [0, 1]}",
         "{\"box\": {}, \"run\": [0, 0]}",
         "{\"box\": [], \"run\": [0, 2]}",
         "{\"run\": [0, 1]}",
         "[]",
         "{\"box\": [[9223372036854775807, 1, 9223372036854775807]], \"run\": [0, 1]}",
         "{\"box\": [[0, 4294967296, 4294967296], [0, 4294967296, 4294967296]], \"run\": [0, 0]}",
         "{\"box\": [[0,1,1],[0,1,1],[0,1,1],[0,1,1],[0,1,1],[0,1,1]], \"run\": [0, 1]}"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_fails(parse(wrong[i], &p), E_FORMAT, "shard", "which part of the tensor");
}

/* 2^61 elements of 8 bytes overflow to 0 bytes in 64 bits, so an empty tensor would pass for them. */
TEST(test_a_piece_has_as_many_elements_as_its_tensor) {
    struct piece p;
    struct safetensors_entry e = {.dtype = FP64, .dtype_name = "F64", .begin = 8, .end = 48};
    assert_ok(parse("{\"box\": [[0, 5, 5]], \"run\": [0, 5]}", &p));
    assert_ok(checkpoint_piece_check(&p, &e, "shard", "w"));
    e.end = 40;
    assert_fails(checkpoint_piece_check(&p, &e, "shard", "w"), E_FORMAT, "w has 32 bytes", "5 elements");
    assert_fails(checkpoint_piece_check(&p, NULL, "shard", "w"), E_FORMAT, "says that it has w");
    e.dtype = INT32;
    assert_fails(checkpoint_piece_check(&p, &e, "shard", "w"), E_FORMAT, "weights and moments are");
    assert_ok(
        parse("{\"box\": [[0, 2305843009213693952, 2305843009213693952]], \"run\": [0, 2305843009213693952]}", &p));
    e = (struct safetensors_entry){.dtype = FP64, .dtype_name = "F64"};
    assert_fails(checkpoint_piece_check(&p, &e, "shard", "w"), E_FORMAT, "w has 0 bytes",
                 "2305843009213693952 elements");
}

TESTS(unit_test(test_a_changed_manifest_is_refused), unit_test(test_a_manifest_without_a_checksum_is_read_with_care),
      unit_test(test_a_manifest_is_as_large_as_its_shards_allow), unit_test(test_a_manifest_is_read),
      unit_test(test_a_manifests_counts_are_digits_and_bounded), unit_test(test_shards_have_plain_names_and_each_once),
      unit_test(test_pipes_are_no_checkpoints), unit_test(test_a_piece_lies_in_its_tensor),
      unit_test(test_a_piece_has_as_many_elements_as_its_tensor))
