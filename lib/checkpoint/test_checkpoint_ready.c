/* ranks: 1 4  device: cpu */
#include "lib/comm/comm.h"
#include "lib/checkpoint/checkpoint_ready.h"
#include "tests/test.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Rank 0's test_path, on every rank. (test_path itself differs between processes.) */
static const char *shared_path(const char *name) {
    static char path[256];
    snprintf(path, sizeof path, "%s", test_path(name));
    comm_broadcast(group_world(), path, sizeof path, UINT8, 0);
    return path;
}

static int files_in(const char *folder) {
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *entry = d ? readdir(d) : NULL; entry; entry = readdir(d))
        n += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (d) closedir(d);
    return d ? n : -1;
}

TEST(test_ready_folder_is_made_and_left_empty) {
    struct checkpoint_ready ready = {0};
    const char *save = shared_path("a/b/save");
    enum status status = checkpoint_ready(save, 1000, fail_agree, &ready);
    comm_barrier(group_world());
    int n = files_in(save);
    comm_barrier(group_world());
    assert_true(agree_all(status == OK && n == 0 && ready.free_bytes > 0 && ready.probe_s > 0));
}

/* A probe's name is shorter than the names of a checkpoint. A path with room only for the probe must be refused before
 * the first step, not at the first save. */
TEST(test_names_that_do_not_fit_are_refused_at_once) {
    struct checkpoint_ready ready;
    char save[1024];
    size_t n = (size_t)snprintf(save, sizeof save, "%s", shared_path("long"));
    for (; n < 990; n++) save[n] = n % 100 ? 'x' : '/';
    save[n] = 0;
    test_stderr_keep();
    enum status status = checkpoint_ready(save, 1000, fail_agree, &ready);
    bool said = strstr(test_stderr_text(), "the limit is 1023") != NULL;
    status_clear();
    assert_true(agree_all(status == E_CONFIG && said == comm_is_rank_0()));
}

/* Each rank has its own folder, like hosts without a shared file system. All ranks except 0 miss rank 0's file, and all
 * ranks get the error. */
TEST(test_folder_of_one_host_only_is_refused) {
    if (comm_world_size() == 1) return;
    struct checkpoint_ready ready;
    test_stderr_keep();
    enum status status = checkpoint_ready(test_path("own"), 1000, fail_agree, &ready);
    const char *said = test_stderr_text();
    bool named = strstr(said, "file system that all hosts share") != NULL;
    status_clear();
    assert_true(agree_all(status == E_IO && named == (comm_world_rank() == 1)));
}

TESTS(unit_test(test_ready_folder_is_made_and_left_empty), unit_test(test_names_that_do_not_fit_are_refused_at_once),
      unit_test(test_folder_of_one_host_only_is_refused))
