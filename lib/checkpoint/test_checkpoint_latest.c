/* ranks: 1  device: cpu */
/* A job that dies between the two renames of a step that is saved again; links and pipes in SAVE. */
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_lock.h"
#include "lib/checkpoint/checkpoint_manifest.h"
#include "tests/test.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static void write_file(const char *folder, const char *name, const char *text) {
    char path[CHECKPOINT_PATH_MAX];
    assert_ok(checkpoint_path(folder, name, path));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}
static void read_file(const char *folder, const char *name, char text[64]) {
    char path[CHECKPOINT_PATH_MAX];
    memset(text, 0, 64);
    assert_ok(checkpoint_path(folder, name, path));
    FILE *f = fopen(path, "r");
    if (!f) return;
    size_t n = fread(text, 1, 63, f);
    text[n] = 0;
    fclose(f);
}

/* Make SAVE/name, a complete checkpoint of a step, whose one file has this text. */
static void make_step(const char *save, const char *name, const char *step, const char *text) {
    char folder[CHECKPOINT_PATH_MAX], hash[24];
    uint64_t sum;
    assert_ok(checkpoint_path(save, name, folder));
    assert_ok(checkpoint_make_folder(folder));
    write_file(folder, "rank-00000.safetensors", text);
    snprintf(hash, sizeof hash, "%016" PRIx64, (uint64_t)XXH3_64bits(text, strlen(text)));
    char bytes[24];
    snprintf(bytes, sizeof bytes, "%zu", strlen(text));
    json_t *m = json_pack("{s:s, s:i, s:s, s:s, s:s, s:s, s:[{s:s, s:s, s:s}]}", "format", "trivium checkpoint",
                          "version", CHECKPOINT_VERSION, "step", step, "update", step, "samples", "8", "seed", "1",
                          "shards", "file", "rank-00000.safetensors", "bytes", bytes, "xxh3", hash);
    assert_ok(manifest_hash(m, &sum));
    snprintf(hash, sizeof hash, "%016" PRIx64, sum);
    json_object_set_new(m, "xxh3", json_string(hash));
    char *whole = json_dumps(m, JSON_INDENT(1));
    write_file(folder, "manifest.json", whole);
    free(whole);
    json_decref(m);
}

static const char *begin(const char *name) {
    const char *save = test_path(name);
    assert_ok(checkpoint_make_folder(save));
    write_file(save, "latest", "step-00000004\n");
    return save;
}

/* `latest` must resolve to the hidden folder, whose file has this text, and after the lock to the step's own name. */
static void assert_is_found(const char *save, const char *hidden, const char *text) {
    char step[CHECKPOINT_PATH_MAX], is[64];
    struct checkpoint_lock *lock;
    assert_ok(checkpoint_resolve(save, step));
    assert_string_equal(strrchr(step, '/') + 1, hidden);
    read_file(step, "rank-00000.safetensors", is);
    assert_string_equal(is, text);
    assert_ok(checkpoint_lock(save, &lock));
    assert_ok(checkpoint_resolve(save, step));
    assert_string_equal(strrchr(step, '/') + 1, "step-00000004");
    read_file(step, "rank-00000.safetensors", is);
    assert_string_equal(is, text);
    for (int i = 4; i <= 5; i++) {                           /* the hidden copies are removed */
        assert_ok(checkpoint_step_path(save, i, true, step));
        assert_int_not_equal(access(step, F_OK), 0);
    }
    checkpoint_unlock(&lock);
}

TEST(test_a_step_without_a_name_is_found) {
    const char *save = begin("new");
    make_step(save, ".step-00000004", "4", "the new one");
    make_step(save, ".step-00000005", "4", "the old one");
    assert_is_found(save, ".step-00000004", "the new one");
    save = begin("half");
    make_step(save, ".step-00000004", "4", "the new one");
    make_step(save, ".step-00000005", "4", "the old one");
    assert_int_equal(unlink(test_path("half/.step-00000004/manifest.json")), 0);
    assert_is_found(save, ".step-00000005", "the old one");
    save = begin("damaged");
    make_step(save, ".step-00000004", "4", "the new one");
    make_step(save, ".step-00000005", "4", "the old one");
    write_file(save, ".step-00000004/rank-00000.safetensors", "the new oNe");
    assert_is_found(save, ".step-00000005", "the old one");
}

TEST(test_other_steps_are_not_it) {
    char step[CHECKPOINT_PATH_MAX], is[64];
    struct checkpoint_lock *lock;
    const char *save = begin("other");
    make_step(save, ".step-00000005", "5", "of another step");
    assert_fails(checkpoint_resolve(save, step), E_DATA, "names step-00000004, which has no manifest.json");
    assert_ok(checkpoint_lock(save, &lock));
    assert_fails(checkpoint_resolve(save, step), E_DATA, "names step-00000004");
    checkpoint_unlock(&lock);
    save = begin("whole");                                   /* latest's step exists */
    make_step(save, "step-00000004", "4", "the one");
    make_step(save, ".step-00000004", "4", "another one");
    assert_ok(checkpoint_lock(save, &lock));
    assert_ok(checkpoint_resolve(save, step));
    read_file(step, "rank-00000.safetensors", is);
    assert_string_equal(is, "the one");
    checkpoint_unlock(&lock);
}

/* ---- links and pipes that another user has put there ---- */

TEST(test_links_in_the_folder_lead_nowhere) {
    char text[64], precious[CHECKPOINT_PATH_MAX], far[CHECKPOINT_PATH_MAX], link[CHECKPOINT_PATH_MAX];
    struct checkpoint_lock *lock;
    snprintf(far, sizeof far, "%s", test_path("far"));
    assert_ok(checkpoint_make_folder(far));
    write_file(far, "precious", "precious");
    assert_ok(checkpoint_path(far, "precious", precious));
    const char *save = begin("links");
    const char *const names[] = {".step-00000003", ".latest", ".probe-00000", "step-00000001"};
    for (int i = 0; i < 4; i++) {
        assert_ok(checkpoint_path(save, names[i], link));
        assert_int_equal(symlink(i % 3 ? precious : far, link), 0);
    }
    assert_ok(checkpoint_lock(save, &lock));
    assert_ok(checkpoint_path(save, ".step-00000003", link));
    assert_int_equal(symlink(far, link), 0);                 /* the link reappears */
    assert_ok(checkpoint_remove_folder(link));
    assert_ok(checkpoint_path(save, ".latest", link));
    assert_int_equal(symlink(precious, link), 0);
    assert_ok(checkpoint_replace_text(save, "latest", "step-00000009"));
    make_step(save, "step-00000009", "9", "the newest");
    assert_ok(checkpoint_prune(save, 1, 9));
    read_file(far, "precious", text);
    assert_string_equal(text, "precious");
    assert_int_not_equal(access(test_path("links/step-00000001"), F_OK), 0);
    checkpoint_unlock(&lock);
}

TEST(test_a_lock_that_is_no_file_is_refused) {
    char text[64], precious[CHECKPOINT_PATH_MAX], path[CHECKPOINT_PATH_MAX];
    struct checkpoint_lock *lock;
    snprintf(precious, sizeof precious, "%s", test_path("precious"));
    write_file(test_path("."), "precious", "precious");
    const char *save = begin("lock");
    assert_ok(checkpoint_path(save, ".lock", path));
    assert_int_equal(symlink(precious, path), 0);
    assert_fails(checkpoint_lock(save, &lock), E_IO, path, "link", "--save");
    unlink(path);
    assert_int_equal(link(precious, path), 0);
    assert_fails(checkpoint_lock(save, &lock), E_IO, path, "another name", "--save");
    unlink(path);
    alarm(30);                                               /* refused without waiting */
    assert_int_equal(mkfifo(path, 0666), 0);
    assert_fails(checkpoint_lock(save, &lock), E_IO, path, "no regular file", "--save");
    assert_fails(checkpoint_lock_check(save), E_IO, path, "no regular file");
    alarm(0);
    read_file(test_path("."), "precious", text);
    assert_string_equal(text, "precious");
}

TESTS(unit_test(test_a_step_without_a_name_is_found), unit_test(test_other_steps_are_not_it),
      unit_test(test_links_in_the_folder_lead_nowhere), unit_test(test_a_lock_that_is_no_file_is_refused))
