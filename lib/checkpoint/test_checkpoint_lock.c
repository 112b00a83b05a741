/* ranks: 1  device: cpu */
/* One job at a time in a SAVE: who is refused, and who is not. Jobs of several processes are tests/checkpoint.sh's. */
#include "lib/checkpoint/checkpoint_files.h"
#include "lib/checkpoint/checkpoint_lock.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void own_lock(const char *save, char text[256]) {
    char path[CHECKPOINT_PATH_MAX];
    assert_ok(checkpoint_path(save, ".lock", path));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    text[fread(text, 1, 255, f)] = 0;
    fclose(f);
}

/* flock belongs to an open file: a second one in the same process is refused as another process is. */
static void test_a_folder_has_one_job_at_a_time(void **state) {
    (void)state;
    struct checkpoint_lock *first, *second;
    char text[256], who[64];
    const char *save = test_path("made/for/it");
    assert_ok(checkpoint_lock(save, &first));
    snprintf(who, sizeof who, "process %ld on host", (long)getpid());
    assert_fails(checkpoint_lock(save, &second), E_IO, "made/for/it is used by another job", who, "another folder");
    assert_null(second);
    own_lock(save, text);
    assert_true(checkpoint_owner_lives(text));                       /* a refused job leaves it as it is */
    checkpoint_unlock(&first);
    assert_ok(checkpoint_lock(save, &second));
    checkpoint_unlock(&second);
    own_lock(save, text);
    assert_string_equal(text, "");
}

/* A process that is gone, and a later one with its number: what file systems without locks have to go by. */
static void test_the_dead_have_nothing(void **state) {
    (void)state;
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

static void test_what_the_dead_left_goes(void **state) {
    (void)state;
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

TESTS(unit_test(test_a_folder_has_one_job_at_a_time), unit_test(test_the_dead_have_nothing),
      unit_test(test_what_the_dead_left_goes))
