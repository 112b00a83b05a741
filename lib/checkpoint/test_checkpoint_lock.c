/* ranks: 1  device: cpu */
/* Only one job at a time may write into SAVE: jobs that are refused, and jobs that are not. tests/checkpoint.sh tests
 * jobs of several processes. */
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_lock.h"
#include "lib/checkpoint/checkpoint_manifest.h"
#include "lib/checkpoint/checkpoint_save.h"
#include "tests/test.h"
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

static void own_lock(const char *save, char text[256]) {
    char path[CHECKPOINT_PATH_MAX];
    assert_ok(checkpoint_path(save, ".lock", path));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, 255, f)] = 0;
    fclose(f);
}

/* flock belongs to an open file, so a second open file of this process is refused like another process. */
TEST(test_a_folder_has_one_job_at_a_time) {
    struct checkpoint_lock *first, *second;
    char text[256], who[64];
    const char *save = test_path("made/for/it");
    assert_ok(checkpoint_lock(save, &first));
    snprintf(who, sizeof who, "process %ld on host", (long)getpid());
    assert_fails(checkpoint_lock(save, &second), E_IO, "made/for/it is used by another job", who, "another folder");
    assert_null(second);
    own_lock(save, text);
    assert_true(checkpoint_owner_lives(text));                       /* a refused job does not change it */
    checkpoint_unlock(&first);
    assert_ok(checkpoint_lock(save, &second));
    checkpoint_unlock(&second);
    own_lock(save, text);
    assert_string_equal(text, "");
}

/* On file systems without locks, the text decides: the owner has ended, or a later process has its process id. */
TEST(test_the_dead_have_nothing) {
    struct checkpoint_lock *lock;
    char text[256], host[64], since[64];
    long pid;
    unsigned long long start;
    const char *save = test_path("alive");
    assert_ok(checkpoint_lock(save, &lock));
    own_lock(save, text);
    assert_int_equal(sscanf(text, "%63s %ld %llu %63[^\n]", host, &pid, &start, since), 4);
    assert_true(checkpoint_owner_lives(text));
    snprintf(text, sizeof text, "%s %ld %llu %s", host, pid, start + 1, since);
    assert_false(checkpoint_owner_lives(text));
    snprintf(text, sizeof text, "%s-2 %ld %llu %s", host, pid, start, since);
    assert_false(checkpoint_owner_lives(text));
    pid_t child = fork();
    if (child == 0) _exit(0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(text, sizeof text, "%s %ld %llu %s", host, (long)child, start, since);
    assert_false(checkpoint_owner_lives(text));
    assert_false(checkpoint_owner_lives(""));
    assert_false(checkpoint_owner_lives("what is this"));
    checkpoint_unlock(&lock);
}

static void touch(const char *save, const char *name) {
    char path[CHECKPOINT_PATH_MAX];
    assert_ok(checkpoint_path(save, name, path));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
}

/* Play a rank 0 whose host has fallen silent: hold the lock, with its text. @return the locked file */
static int hold(const char *save, const char *job, int epoch) {
    char path[CHECKPOINT_PATH_MAX];
    assert_ok(checkpoint_make_folder(save));
    assert_ok(checkpoint_path(save, ".lock", path));
    int fd = open(path, O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0);
    dprintf(fd, "elsewhere 7 77 2026-01-01 00:00:00\nepoch %d of %s\n", epoch, job);
    return fd;
}

static bool is_locked(const char *save, const char *name) {
    char path[CHECKPOINT_PATH_MAX];
    assert_ok(checkpoint_path(save, name, path));
    int fd = open(path, O_RDWR);
    if (fd < 0) return false;
    bool locked = flock(fd, LOCK_EX | LOCK_NB) != 0;
    close(fd);
    return locked;
}

/* This process is in epoch 0, so epoch -1 is older. Only the lock of an older epoch of the same job can be taken from a
 * living process, and only by one process at a time. */
TEST(test_a_newer_epoch_takes_over) {
    struct checkpoint_lock *lock;
    char text[256];
    enum { N = 6 };
    const struct { const char *name, *job; int epoch; } held[N] = {{"same", "77.5", 0},    {"newer", "77.5", 1},
                                                                   {"other", "77.6", -1},  {"none", "", -1},
                                                                   {"longer", "77.55", -1}, {"older", "77.5", -1}};
    int fds[N], codes[N], beside;
    pid_t child[N];
    setenv("TRIVIUM_JOB", "77.5", 1);
    for (int i = 0; i < N; i++) fds[i] = hold(test_path(held[i].name), held[i].job, held[i].epoch);
    beside = open(test_path("older/.lock-taken-over"), O_RDWR | O_CREAT, 0666);
    assert_true(flock(beside, LOCK_EX) == 0);
    for (int i = 0; i < N; i++)
        if ((child[i] = fork()) == 0) _exit(checkpoint_lock(test_path(held[i].name), &lock) == E_IO ? 7 : 0);
    for (int i = 0; i < N; i++) {
        assert_int_equal(waitpid(child[i], &codes[i], 0), child[i]);
        assert_true(WIFEXITED(codes[i]) && WEXITSTATUS(codes[i]) == 7);
        if (i < N - 1) close(fds[i]);
    }
    close(beside);
    const char *save = test_path("older");
    int old = fds[N - 1];
    assert_ok(checkpoint_lock(save, &lock));
    own_lock(save, text);
    assert_true(checkpoint_owner_lives(text) && strstr(text, "\nepoch 0 of 77.5\n"));
    assert_true(is_locked(save, ".lock") && access(test_path("older/.lock-taken-over"), F_OK) != 0);
    assert_true(ftruncate(old, 0) == 0);                             /* the old rank 0 releases its lock */
    close(old);
    own_lock(save, text);
    assert_true(checkpoint_owner_lives(text) && is_locked(save, ".lock"));
    checkpoint_unlock(&lock);
    assert_false(is_locked(save, ".lock"));
    unsetenv("TRIVIUM_JOB");
}

/* A rank 0 that was replaced removes and renames nothing. */
TEST(test_who_is_replaced_writes_no_more) {
    char unfinished[CHECKPOINT_PATH_MAX];
    const char *save = test_path("replaced");
    assert_ok(checkpoint_step_path(save, 7, true, unfinished));
    setenv("TRIVIUM_JOB", "77.5", 1);
    int new = hold(save, "77.5", 1);
    assert_ok(checkpoint_make_folder(unfinished));
    touch(unfinished, "rank-00000.safetensors");
    assert_fails(checkpoint_begin(save, unfinished), E_EPOCH, "replaced is written by the rank 0 of a newer epoch");
    json_t *manifest = json_object();
    assert_fails(checkpoint_publish(manifest, save, 7, NULL, 0, 1), E_EPOCH, "a newer epoch");
    json_decref(manifest);
    assert_fails(checkpoint_undo(group_world(), save, 7, FAIL(E_IO, "no room")), E_IO, "no room");
    assert_int_equal(access(test_path("replaced/.step-00000007/rank-00000.safetensors"), F_OK), 0);
    assert_int_not_equal(access(test_path("replaced/.step-00000007/manifest.json"), F_OK), 0);
    unsetenv("TRIVIUM_JOB");                                         /* a job without a name checks no epoch */
    assert_ok(checkpoint_lock_check(save));
    assert_fails(checkpoint_undo(group_world(), save, 7, FAIL(E_EPOCH, "it is over")), E_EPOCH, "it is over");
    assert_int_equal(access(test_path("replaced/.step-00000007/rank-00000.safetensors"), F_OK), 0);
    assert_fails(checkpoint_undo(group_world(), save, 7, FAIL(E_IO, "no room")), E_IO, "no room");
    assert_int_not_equal(access(unfinished, F_OK), 0);
    close(new);
}

TEST(test_what_the_dead_left_goes) {
    struct checkpoint_lock *lock;
    char path[CHECKPOINT_PATH_MAX];
    const char *const left[] = {".step-00000003", ".probe-00002", ".latest"};
    const char *const stays[] = {"step-00000002", "latest", ".mine"};
    const char *save = test_path("left");
    assert_ok(checkpoint_make_folder(save));
    for (int i = 0; i < 2; i++) {
        assert_ok(checkpoint_path(save, i ? stays[0] : left[0], path));
        assert_ok(checkpoint_make_folder(path));
        touch(path, "rank-00000.safetensors");
        touch(save, left[i + 1]);
        touch(save, stays[i + 1]);
    }
    assert_ok(checkpoint_lock(save, &lock));
    for (int i = 0; i < 3; i++) {
        assert_ok(checkpoint_path(save, left[i], path));
        assert_int_not_equal(access(path, F_OK), 0);
        assert_ok(checkpoint_path(save, stays[i], path));
        assert_int_equal(access(path, F_OK), 0);
    }
    checkpoint_unlock(&lock);
}

/* A job that dies between the two renames of a step that is saved again; links and pipes in SAVE. */

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

TESTS(unit_test(test_a_folder_has_one_job_at_a_time), unit_test(test_the_dead_have_nothing),
      unit_test(test_what_the_dead_left_goes), unit_test(test_a_newer_epoch_takes_over),
      unit_test(test_who_is_replaced_writes_no_more), unit_test(test_a_step_without_a_name_is_found),
      unit_test(test_other_steps_are_not_it), unit_test(test_links_in_the_folder_lead_nowhere),
      unit_test(test_a_lock_that_is_no_file_is_refused))
