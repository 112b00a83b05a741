/* ranks: 1  device: cpu */
#define _GNU_SOURCE /* sched_getaffinity */
#include "driver/setup.h"
#include "lib/comm/comm.h"
#include "lib/data/data_write.h"
#include "tests/test.h"
#include <omp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

TESTS(unit_test(test_binding_is_the_affinity_mask), unit_test(test_threads_are_cores_by_ranks_unless_told),
      unit_test(test_rope_theta_is_llamas),
      unit_test(test_a_models_own_tokens_are_no_texts))
