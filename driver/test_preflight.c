/* ranks: 1  device: cpu */
#include "driver/deadline.h"
#include "driver/preflight.h"
#include "lib/checkpoint/checkpoint_ready.h"
#include "models/gpt/gpt.h"
#include "tests/test.h"
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4 };

/* Two hosts with two ranks each, without a finding. */
static void good(struct preflight_rank rank[N]) {
    for (int r = 0; r < N; r++) {
        rank[r] = (struct preflight_rank){.program = 7, .threads = 4, .allowed_cores = 8, .cores = 8};
        strcpy(rank[r].host, r < 2 ? "n01" : "n02");
        strcpy(rank[r].device, r % 2 ? "cuda 1 (NVIDIA H100)" : "cuda 0 (NVIDIA H100)");
        strcpy(rank[r].library, "Open MPI v4.1.4");
    }
}

static const char *findings(const struct preflight_rank rank[N], int wanted, bool differ_wanted) {
    static char text[2048];
    bool differ;
    memset(text, 0, sizeof text);
    FILE *f = fmemopen(text, sizeof text, "w");
    assert_non_null(f);
    int n = preflight_findings(rank, N, f, &differ);
    fclose(f);
    assert_int_equal(n, wanted);
    assert_int_equal(differ, differ_wanted);
    return text;
}

TEST(test_equal_ranks_are_fine) {
    struct preflight_rank rank[N];
    good(rank);
    assert_string_equal(findings(rank, 0, false), "");
}

TEST(test_differences_name_the_first_rank_that_has_them) {
    struct preflight_rank rank[N];
    good(rank);
    strcpy(rank[2].library, "Open MPI v5.0.1");
    strcpy(rank[3].library, "Open MPI v5.0.1");
    assert_non_null(
        strstr(findings(rank, 1, true), "rank 2 on n02 has Open MPI v5.0.1, rank 0 on n01 has Open MPI v4.1.4"));
    good(rank);
    rank[3].program = 8;
    assert_non_null(strstr(findings(rank, 1, true), "rank 3 on n02 runs another build"));
    good(rank);
    strcpy(rank[1].device, "cuda 1 (NVIDIA A100)");
    assert_non_null(strstr(findings(rank, 1, false), "rank 1 on n01 computes on cuda 1 (NVIDIA A100)"));
}

TEST(test_placement) {
    struct preflight_rank rank[N];
    good(rank);
    strcpy(rank[2].host, "n01");
    /* and 12 threads on n01's 8 cores */
    assert_non_null(strstr(findings(rank, 2, false), "n02 has 1 ranks and n01 3"));
    good(rank);
    rank[1].allowed_cores = 1;
    assert_non_null(strstr(findings(rank, 1, false), "rank 1 on n01 has 4 threads and is bound to 1 cores"));
    good(rank);
    rank[3].threads = 5;
    assert_non_null(strstr(findings(rank, 1, false), "n02 has 9 threads on 8 cores"));
    good(rank);
    rank[0].gpu_shared = 1;
    assert_non_null(strstr(findings(rank, 1, false), "rank 0 on n01 shares its GPU"));
}

TEST(test_hosts_are_counted_wherever_their_ranks_are) {
    struct preflight_rank rank[N];
    char text[128];
    int n;
    good(rank);
    strcpy(rank[1].host, "n02");
    preflight_hosts(rank, N, 8, text, sizeof text, &n);
    assert_string_equal(text, "2 hosts: n01 x 1, n02 x 3");
    assert_int_equal(n, 2);
    preflight_hosts(rank, N, 1, text, sizeof text, &n);
    assert_string_equal(text, "2 hosts: n01 x 1, ...");
}

TEST(test_room_for_one_is_needed_and_two_wanted) {
    bool tight;
    assert_ok(checkpoint_room("S", 2.0, 1.0, &tight));
    assert_false(tight);
    assert_ok(checkpoint_room("S", 1.5, 1.0, &tight));
    assert_true(tight);
    assert_fails(checkpoint_room("S", 1 << 20, 2 << 20, &tight), E_IO, "1.0 MiB", "2.0 MiB", "another place");
}

/* GPT-2 124M in fp32: 124439808 parameters, with two moments of 4 bytes each. */
TEST(test_checkpoint_is_master_and_two_moments) {
    struct plan p = {.layers = 12, .hidden = 768, .heads = 12, .seq = 1024, .vocab = 50257, .precision = PRECISION_BF16,
                     .arch = &model_gpt};
    model_options(&p)->tie = 1;
    assert_close(preflight_checkpoint_bytes(&p), 124439808.0 * 12, 0);
    p.precision = PRECISION_FP64;
    assert_close(preflight_checkpoint_bytes(&p), 124439808.0 * 24, 0);
}

/* Output and exit of a process that hangs after `arm`. */
static int stand_still(void (*arm)(void), char *said, size_t size) {
    int text[2], status;
    assert_int_equal(pipe(text), 0);
    pid_t child = fork();
    if (child == 0) {
        dup2(text[1], STDERR_FILENO);
        arm();
        for (int s = 0; s < 30; s++) sleep(1);
        _exit(99);
    }
    close(text[1]);
    size_t n = 0;
    for (ssize_t got; n < size - 1 && (got = read(text[0], said + n, size - 1 - n)) > 0;) n += (size_t)got;
    said[n] = 0;
    close(text[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void set_up(void) { deadline_set(0.5, "set-up"); }
static void lifted(void) {
    deadline_set(1, "set-up");
    deadline_lift();
    sleep(2);
    _exit(0);
}

TEST(test_deadline_says_one_line_and_ends) {
    char said[2048];
    assert_int_equal(stand_still(set_up, said, sizeof said), 1);
    assert_non_null(strstr(said, "E_TIMEOUT deadline.c:"));
    assert_non_null(strstr(said, "set-up did not end within 0.5 s"));
    assert_non_null(strstr(said, "--comm-timeout"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(stand_still(lifted, said, sizeof said), 0);
    assert_string_equal(said, "");
}

TESTS(unit_test(test_equal_ranks_are_fine), unit_test(test_differences_name_the_first_rank_that_has_them),
      unit_test(test_placement), unit_test(test_hosts_are_counted_wherever_their_ranks_are),
      unit_test(test_room_for_one_is_needed_and_two_wanted), unit_test(test_checkpoint_is_master_and_two_moments),
      unit_test(test_deadline_says_one_line_and_ends))
