/* ranks: 1 2 4  device: any
 *
 * --gemm-algorithms: a run that times its products, runs that read its file, and files that are refused. The device is
 * emulated (SIMT_ALGORITHMS, tests/simt/fake_cublaslt.c). */
#define SIMT_WEAK
#include "lib/run/products.h"

#include "lib/ops/gemm/gemm_choices.h"
#include "tests/layouts.h"
#include "tests/simt/simt_test.h"
#include "tests/test.h"
#include "tp/tp.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern int64_t simt_host_waits(void) __attribute__((weak));      /* tests/simt/fake.h, which is C++ */

static bool is_emulated(void) { return test_device()->kind == DEVICE_CUDA && simt_host_waits; }

/* The file's path, equal on all ranks. */
static char path[64];
static void begin(const char *algorithms) {
    snprintf(path, sizeof path, "/tmp/trivium-products-%d", (int)getpid());
    assert_ok(comm_broadcast(group_world(), path, sizeof path, UINT8, 0));
    if (comm_is_rank_0()) remove(path);
    assert_ok(comm_barrier(group_world()));
    gemm_choice_add(&(struct gemm_choice){.product = "none"});   /* drops the plans of earlier tests */
    gemm_choices_keep(0);
    setenv("SIMT_ALGORITHMS", algorithms, 1);
}
static void end(void) {
    unsetenv("SIMT_ALGORITHMS");
    gemm_choices_keep(0);
    if (comm_is_rank_0()) remove(path);
}

/* A step has several microbatches, so that a gradient is written by the first, and added to by the others. */
static struct plan plan_with_file(void) {
    struct plan p = parity_plan();
    p.layers = 2;
    p.mesh.dp = 0;
    p.micro_batch = 2;
    p.precision = PRECISION_FP32;
    p.device = PLAN_DEVICE_CUDA;
    snprintf(p.gemm_algorithms, sizeof p.gemm_algorithms, "%s", path);
    return p;
}

static int n_choices(void) {
    int n;
    gemm_choices(&n);
    return n;
}

/* The run that times equals the CPU's reference, although timing has written to gradients. The run that reads the file
 * has the same bits, although another algorithm is the fastest now. */
TEST(test_products_are_timed_once) {
    struct reference ref;
    struct difference timed, read, none;
    if (!is_emulated()) skip();
    begin("50,10");
    struct plan p = plan_with_file(), serial = p;
    serial.mesh.dp = 1, serial.gemm_algorithms[0] = 0;
    assert_ok(reference_init(&ref, &serial));
    assert_ok(plan_settle(&p, comm_world_size()));
    assert_ok(layout_compare(&p, &ref, &timed));
    uint64_t hash = gemm_choices_hash();
    int n = n_choices();
    assert_true(n >= 12 && hash);
    setenv("SIMT_ALGORITHMS", "10,50", 1);
    assert_ok(layout_compare(&p, &ref, &read));
    assert_true(gemm_choices_hash() == hash && n_choices() == n);
    assert_true(timed.bits == read.bits);
    p.gemm_algorithms[0] = 0;
    assert_ok(layout_compare(&p, &ref, &none));
    assert_int_equal(n_choices(), 0);
    assert_true(none.bits != read.bits);
    assert_close(timed.first_grad, 0, 1e-4);                             /* fp32: see tests/test_device_parity.c */
    assert_close(timed.memory, 0, 0);
    reference_fini(&ref);
    end();
}

/* Each rank finds another algorithm the fastest. All ranks must take rank 0's. */
TEST(test_ranks_take_the_same) {
    if (!is_emulated() || comm_world_size() == 1) skip();
    begin(comm_is_rank_0() ? "50,10" : "10,50");
    struct plan p = plan_with_file();
    struct run r;
    p.mesh.tp = 2;
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    uint64_t first = gemm_choices_hash(), mine = first;
    assert_ok(comm_broadcast(group_world(), &first, sizeof first, UINT8, 0));
    assert_true(first == mine);
    int n;
    const struct gemm_choice *c = gemm_choices(&n);
    for (int i = 0; i < n; i++) assert_true(c[i].seconds < c[i].first_s);
    assert_ok(run_step(&r));
    run_destroy(&r);
    end();
}

/* Products in the file that the run does not use stay in the file, and do not count as used. */
TEST(test_a_file_grows) {
    if (!is_emulated()) skip();
    begin("50,10");
    struct plan p = plan_with_file();
    struct run r;
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    run_destroy(&r);
    int n = n_choices();
    uint64_t hash = gemm_choices_hash();
    p.hidden = 24;
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    run_destroy(&r);
    assert_true(n_choices() > n + 6 && gemm_choices_hash() != hash);
    p.hidden = 16;
    int all = n_choices();
    assert_ok(layout_open(&r, p, WATCH_NOTHING));
    run_destroy(&r);
    assert_int_equal(n_choices(), all);
    assert_true(gemm_choices_hash() == hash);
    end();
}

static void write_text(const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

TEST(test_files_of_others_are_refused) {
    static const struct { const char *text; enum status status; } bad[] = {
        {"", E_FORMAT}, {"{}", E_FORMAT}, {"{\"format\": \"trivium gemm algorithms\", \"version\": 2}", E_FORMAT},
        {"{\"format\": \"trivium gemm algorithms\", \"version\": 1, \"gpu\": \"H100\", \"cublaslt\": 130100, "
         "\"products\": {}}", E_CONFIG},
        {"{\"format\": \"trivium gemm algorithms\", \"version\": 1, \"gpu\": \"simt (CPU)\", \"cublaslt\": 120000, "
         "\"products\": {}}", E_CONFIG},
        {"{\"format\": \"trivium gemm algorithms\", \"version\": 1, \"gpu\": \"simt (CPU)\", \"cublaslt\": 130100, "
         "\"products\": {\"2 x 2\": {\"algorithm\": \"90\"}}}", E_FORMAT},
    };
    if (!is_emulated() || comm_world_size() > 1) skip();
    begin("50,10");
    struct plan p = plan_with_file();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct run r;
        write_text(bad[i].text);
        enum status status = layout_open(&r, p, WATCH_NOTHING);
        run_destroy(&r);
        assert_int_equal(status, bad[i].status);
        status_clear();
    }
    end();
}

TESTS(unit_test(test_products_are_timed_once), unit_test(test_ranks_take_the_same), unit_test(test_a_file_grows),
      unit_test(test_files_of_others_are_refused))
