/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* sched_getaffinity */
#include "driver/deadline.h"
#include "driver/preflight.h"
#include "driver/setup.h"
#include "lib/checkpoint/checkpoint_ready.h"
#include "lib/comm/comm.h"
#include "lib/data/data_write.h"
#include "models/gpt/gpt.h"
#include "tests/test.h"
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
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

static void wait_late(void) { deadline_set(0.5, "set-up"); }
static void lifted(void) {
    deadline_set(1, "set-up");
    deadline_lift();
    sleep(2);
    _exit(0);
}

TEST(test_deadline_says_one_line_and_ends) {
    char said[2048];
    assert_int_equal(stand_still(wait_late, said, sizeof said), 1);
    assert_non_null(strstr(said, "E_TIMEOUT deadline.c:"));
    assert_non_null(strstr(said, "set-up did not end within 0.5 s"));
    assert_non_null(strstr(said, "--comm-timeout"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
    assert_int_equal(stand_still(lifted, said, sizeof said), 0);
    assert_string_equal(said, "");
}

TEST(test_binding_is_the_affinity_mask) {
    cpu_set_t mask, one;
    char words[64];
    int first = 0, bound;
    assert_int_equal(sched_getaffinity(0, sizeof mask, &mask), 0);
    int allowed = setup_allowed_cores();
    while (!CPU_ISSET(first, &mask)) first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    bound = setup_allowed_cores();
    snprintf(words, sizeof words, "%s", setup_binding());
    assert_int_equal(sched_setaffinity(0, sizeof mask, &mask), 0);
    assert_int_equal(allowed, CPU_COUNT(&mask));
    assert_int_equal(bound, 1);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) assert_non_null(strstr(words, "bound to 1 of "));
    else assert_string_equal(words, "free on 1 core");
}

/* The plan's number of threads; without one, the process's cores divided by its ranks, and at least one. */
TEST(test_threads_are_cores_by_ranks_unless_told) {
    struct plan plan = {.threads = 3};
    int before = omp_get_max_threads(), cores = (int)comm_local_cores();
    char *variable = getenv("OMP_NUM_THREADS"), *kept = variable ? strdup(variable) : NULL;
    unsetenv("OMP_NUM_THREADS");
    int told = setup_threads(&plan, 1), used = omp_get_max_threads();
    plan.threads = 0;
    int alone = setup_threads(&plan, 1), many = setup_threads(&plan, 1000000);
    if (kept) setenv("OMP_NUM_THREADS", kept, 1);
    free(kept);
    omp_set_num_threads(before);
    assert_true(told == 3 && used == 3);
    assert_int_equal(alone, cores);
    assert_int_equal(many, 1);
}

/* ---- tokens that a model reserves, and tokens of texts ---- */
static enum status set_up(const char *words) {
    struct setup s;
    char text[1024], *argv[32];
    int argc = 0;
    snprintf(text, sizeof text, "--device cpu --layers 2 --seq 64 --val-fraction 0 %s", words);
    for (char *at = strtok(text, " "); at; at = strtok(NULL, " ")) argv[argc++] = at;
    enum status status = setup_init(&s, argc, argv, 1);
    setup_fini(&s);
    return status;
}

/* A file of tokens 0 .. n - 1 in llm.c's format. */
static const char *write_tokens(int64_t vocab, int32_t n) {
    static char path[1024];
    struct data_writer *w;
    snprintf(path, sizeof path, "%s", test_path("tokens.bin"));
    unlink(path);
    assert_ok(data_write_create(path, DATA_TO_LLMC, vocab, &w));
    for (int32_t i = 0; i < n; i++) assert_ok(data_write_tokens(w, &i, 1));
    assert_ok(data_write_finish(&w));
    return path;
}

static enum status set_up_with(const char *format, const char *path) {
    char words[1536];
    snprintf(words, sizeof words, format, path);
    return set_up(words);
}

#define BPE "--data README.md --tokenizer tests/data/bpe "
TEST(test_a_models_own_tokens_are_no_texts) {
    const char *gpt2 = write_tokens(50257, 3000);
    assert_fails(set_up_with("--arch t5 --vocab 50257 --data %s", gpt2), E_CONFIG, "sentinels of t5: tokens 50254 to "
                 "50256", "<|endoftext|>", "--vocab 50304", "--sentinels");
    assert_ok(set_up_with("--arch t5 --vocab 50304 --data %s", gpt2));
    assert_ok(set_up_with("--arch t5 --vocab 50257 --sentinels 50255 --data %s", gpt2));
    assert_fails(set_up_with("--arch bert --vocab 50257 --data %s", gpt2), E_CONFIG, "mask of bert: tokens 50256 to",
                 "<|endoftext|>", "--vocab 50304", "--mask-token");
    assert_ok(set_up_with("--arch bert --vocab 50304 --data %s", gpt2));
    assert_ok(set_up_with("--arch bert --vocab 50257 --mask-token 50255 --data %s", gpt2));
    assert_ok(set_up_with("--arch gpt --vocab 50257 --data %s", gpt2));
    const char *llama3 = write_tokens(128256, 3000);
    assert_fails(set_up_with("--arch t5 --vocab 128256 --data %s", llama3), E_CONFIG, "Llama 3", "--vocab 128320");
    assert_ok(set_up_with("--arch t5 --vocab 128320 --data %s", llama3));
    assert_fails(set_up(BPE "--arch bert"), E_CONFIG, "the tokenizer's own", "--vocab 576", "--mask-token");
    assert_ok(set_up(BPE "--arch bert --vocab 576"));
    assert_ok(set_up(BPE "--arch bert --mask-token 7"));
    assert_ok(set_up("--data README.md --arch bert"));
}

/* Only Llama and its relatives turn positions. */
TEST(test_rope_theta_is_llamas) {
    assert_ok(set_up("--data README.md --arch llama --rope-theta 500"));
    assert_ok(set_up("--data README.md --arch mixtral --experts 2 --rope-theta 500"));
    for (int i = 0; i < 3; i++)
        assert_fails(set_up_with("--data README.md --rope-theta 500 --arch %s", i ? i > 1 ? "t5" : "bert" : "gpt"),
                     E_CONFIG, "rope-theta is an option of arch=llama");
}

TESTS(unit_test(test_equal_ranks_are_fine), unit_test(test_differences_name_the_first_rank_that_has_them),
      unit_test(test_placement), unit_test(test_hosts_are_counted_wherever_their_ranks_are),
      unit_test(test_room_for_one_is_needed_and_two_wanted), unit_test(test_checkpoint_is_master_and_two_moments),
      unit_test(test_deadline_says_one_line_and_ends), unit_test(test_binding_is_the_affinity_mask),
      unit_test(test_threads_are_cores_by_ranks_unless_told), unit_test(test_rope_theta_is_llamas),
      unit_test(test_a_models_own_tokens_are_no_texts))
