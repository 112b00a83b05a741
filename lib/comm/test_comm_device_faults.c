/* ranks: 1 2 4  device: any */
/* Faults that must be reported: ranks share a GPU under NCCL, buffers are of two kinds, NCCL has no lane for a message,
 * a peer does not join an operation. */
#include "lib/comm/test_comm_device.h"

#include <stdio.h>
#include <time.h>

static bool line_has(const char *line, const char *words) {
    if (strstr(line, words)) return true;
    print_message("expected '%s' in: %s\n", words, line);
    return false;
}

static bool sums_on(const struct device *d, enum comm_transport transport) {
    enum { N = 1000 };
    static float x[N];
    void *on_gpu;
    bool ok = comm_use_device(d, transport) == OK && d->allocate(d, sizeof x, &on_gpu) == OK;
    for (int i = 0; i < N; i++) x[i] = (float)small(comm_world_rank(), i);
    ok &= d->upload(d, on_gpu, x, sizeof x) == OK;
    ok &= comm_all_reduce(group_world(), on_gpu, N, FP32, COMM_SUM) == OK;
    ok &= d->download(d, x, on_gpu, sizeof x) == OK;
    for (int i = 0; i < N; i++) ok &= x[i] == (float)sum_of(comm_world_size(), i);
    d->release(d, on_gpu, sizeof x);
    return ok;
}

/* All ranks are on GPU 0, and all refuse NCCL. Does the message have the reason and the remedy? */
static bool nccl_is_refused(const struct device *d, const char *why, const char *remedy) {
    bool fits, ok = comm_nccl_fits(d, &fits) == OK && !fits;
    test_stderr_keep();
    enum status refused = comm_use_device(d, COMM_NCCL);
    const char *said = test_stderr_text();
    ok &= refused == E_CONFIG;
    if (!comm_is_rank_0()) return ok && !*said;
    return line_has(said, "E_CONFIG") && line_has(said, "share a GPU") && line_has(said, "--comm mpi") &&
           line_has(said, why) && line_has(said, remedy) && ok;
}

/* Ranks that share a GPU: NCCL is refused, the staged transport works. */
TEST(test_ranks_that_share_a_gpu) {
    const struct device *d = test_device();
    if (comm_world_size() == 1 || !use(test_gpu(), COMM_STAGED)) skip();
    bool fits = comm_nccl_shares_gpus(), ok = fits || nccl_is_refused(d, "NCCL 2.", "NCCL_MULTI_RANK_GPU_ENABLE");
    ok &= sums_on(d, COMM_STAGED);
    if (fits) ok &= sums_on(d, COMM_NCCL);
    assert_true(agree_all(ok));
}

/* NCCL 2.30 lets ranks share a GPU if the variable is set on all of them. A refusal names the version and the variable.
 * The emulated NCCL has the version that the test sets. */
TEST(test_nccl_2_30_lets_ranks_share_a_gpu) {
    const struct device *d = test_device();
    if (!simt_host_waits || comm_world_size() == 1 || !use(test_gpu(), COMM_STAGED)) skip();
    bool fits, ok = true;
    setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
    setenv("SIMT_NCCL", "22907", 1);
    ok &= nccl_is_refused(d, "NCCL 2.29.7 needs one for each", "from 2.30 on NCCL_MULTI_RANK_GPU_ENABLE=1");
    setenv("SIMT_NCCL", "23004", 1);
    ok &= comm_nccl_fits(d, &fits) == OK && fits && sums_on(d, COMM_NCCL);
    ok &= comm_use_device(d, COMM_STAGED) == OK;
    if (!comm_is_rank_0()) setenv("NCCL_MULTI_RANK_GPU_ENABLE", "0", 1);
    ok &= comm_nccl_fits(d, &fits) == OK && !fits;                       /* the variable is not set on every rank */
    unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
    ok &= nccl_is_refused(d, "NCCL 2.30.4 needs one for each, as NCCL_MULTI_RANK_GPU_ENABLE is not 1", "set it to 1");
    unsetenv("SIMT_NCCL");
    assert_true(agree_all(ok));
}

TEST(test_refuses_what_cannot_be) {
    const struct gpu *g = test_gpu();
    struct comm_request request;
    float x[8] = {0};
    for (int t = 0; t < 2; t++) {
        if (!use(g, transports[t])) continue;
        assert_fails(comm_all_gather(group_world(), x, g->a, 1, FP32), E_INTERNAL, "all_gather", "one place");
        if (comm_world_size() == 1 || transports[t] != COMM_NCCL) continue;
        int rank = comm_world_rank(), next = (rank + 1) % comm_world_size();
        assert_fails(comm_send_start(group_world(), g->a, 1, FP32, next, 0, &request), E_INTERNAL, "group world",
                     "group_carry_messages");
        assert_fails(comm_all_reduce(group_world(), g->a, 1, BF16, COMM_MAX), E_INTERNAL, "bf16", "NaN", "fp32");
    }
}

TEST(test_refuses_messages_without_a_lane) {
    const struct gpu *g = test_gpu();
    struct group *ring;
    struct comm_request request;
    int rank = comm_world_rank(), n = comm_world_size();
    if (n == 1 || !use(g, COMM_NCCL)) skip();
    bool ok = group_create("ring", 0, rank, &ring) == OK && group_carry_messages(ring, 2) == OK;
    ok &= comm_send_start(ring, g->a, 1, FP32, (rank + 1) % n, 2, &request) == E_INTERNAL &&
          line_has(status_text(), "tag 2");
    ok &= comm_send_start(ring, g->a, 1, FP32, rank, 0, &request) == E_INTERNAL && line_has(status_text(), "next rank");
    status_clear();
    ok &= comm_barrier(group_world()) == OK;
    group_destroy(&ring);
    assert_true(agree_all(ok));
}

/* A receive from the rank itself, without a send, ends at the deadline. */
TEST(test_a_message_to_oneself_that_never_comes) {
    const struct gpu *g = test_gpu();
    struct comm_settings before = *comm_settings_in_force(), brief = before;
    struct comm_request request, late;
    if (!use(g, COMM_STAGED)) skip();
    brief.timeout_s = 0.2;
    comm_configure(&brief);
    bool ok = comm_recv_start(group_self(), g->a, 4, FP32, 0, 1, &request) == OK && comm_wait(&request) == E_TIMEOUT;
    ok &= line_has(status_text(), "recv #");
    status_clear();
    comm_configure(&before);
    /* the late send ends the receive */
    ok &= comm_send_start(group_self(), g->b, 4, FP32, 0, 1, &late) == OK && comm_wait(&late) == OK;
    ok &= comm_given_up_done();
    assert_true(agree_all(ok));
}

/* ---- a peer that does not join an operation ---- */

static void nap(double seconds) {
    struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
    nanosleep(&t, NULL);
}

/* Over NCCL the host continues, and finds the missing peer when it waits for the step. All ranks except the last start
 * an all_reduce; the last rank sleeps beyond their deadline and their roll call. Afterwards every rank that waited has
 * aborted its communicators. */
static bool missing_over_nccl(const struct gpu *g, struct group *group) {
    struct comm_settings before = *comm_settings_in_force(), brief = before;
    struct device_mark mark = {0};
    int last = comm_world_size() - 1;
    char name[64];
    bool ok = true;
    snprintf(name, sizeof name, "no answer from rank %d", last);
    if (comm_world_rank() == last) {
        nap(4.5);
        return true;
    }
    brief.timeout_s = 0.3;
    comm_configure(&brief);
    ok &= comm_all_reduce(group, g->a, 100, FP32, COMM_SUM) == OK;
    ok &= g->device->mark_set(g->device, &mark) == OK;
    ok &= comm_wait_device(&mark, "step 7") == E_TIMEOUT;
    ok &= line_has(status_text(), "step 7 did not finish within 0.3 s") && line_has(status_text(), name);
    ok &= line_has(status_text(), "all_reduce #0 of group slow");
    status_clear();
    comm_configure(&before);
    ok &= comm_all_reduce(group, g->a, 100, FP32, COMM_SUM) == E_COMM && line_has(status_text(), "broken off");
    status_clear();
    ok &= g->device->finish(g->device) == OK;               /* aborted operations do not block the stream */
    g->device->mark_fini(g->device, &mark);
    return ok;
}

TEST(test_missing_rank_is_named_over_nccl) {
    const struct gpu *g = test_gpu();
    struct group *group;
    if (comm_world_size() == 1 || !use(g, COMM_NCCL)) skip();
    bool ok = group_create("slow", 0, comm_world_rank(), &group) == OK;
    ok &= comm_all_reduce(group_world(), g->b, 100, FP32, COMM_SUM) == OK && g->device->finish(g->device) == OK;
    ok &= missing_over_nccl(g, group);
    ok &= comm_barrier(group_world()) == OK;
    ok &= comm_use_device(g->device, COMM_STAGED) == OK;    /* closes NCCL's lanes on all ranks */
    group_destroy(&group);
    ok &= comm_use_device(g->device, COMM_NCCL) == OK;
    ok &= put(g, g->a, FP32, comm_world_rank(), 0, 9) && comm_all_reduce(group_world(), g->a, 9, FP32, COMM_SUM) == OK;
    ok &= holds(g, g->a, FP32, -1, 0, 9);
    assert_true(agree_all(ok));
}

/* With the staged transport the host waits in comm_wait, with its deadline. A late operation still ends. */
TEST(test_missing_rank_is_named_when_staged) {
    const struct gpu *g = test_gpu();
    struct comm_settings before = *comm_settings_in_force(), brief = before;
    struct comm_request request;
    int last = comm_world_size() - 1;
    char name[64];
    if (comm_world_size() == 1 || !use(g, COMM_STAGED)) skip();
    bool ok = put(g, g->a, FP32, comm_world_rank(), 0, 100);
    snprintf(name, sizeof name, "no answer from rank %d", last);
    brief.timeout_s = 0.3;
    if (comm_world_rank() == last) nap(4.5);
    else comm_configure(&brief);
    ok &= comm_all_reduce_start(group_world(), g->a, 100, FP32, COMM_SUM, &request) == OK;
    ok &= comm_wait(&request) == (comm_world_rank() == last ? OK : E_TIMEOUT);
    if (comm_world_rank() != last) ok &= line_has(status_text(), "all_reduce #") && line_has(status_text(), name);
    status_clear();
    comm_configure(&before);
    double until_s = clock_s() + 20;
    while (!comm_given_up_done() && clock_s() < until_s) comm_progress();
    ok &= comm_given_up_done() && comm_barrier(group_world()) == OK;
    assert_true(agree_all(holds(g, g->a, FP32, -1, 0, 100) && ok));
}

TESTS(unit_test(test_ranks_that_share_a_gpu), unit_test(test_nccl_2_30_lets_ranks_share_a_gpu),
      unit_test(test_refuses_what_cannot_be),
      unit_test(test_refuses_messages_without_a_lane), unit_test(test_a_message_to_oneself_that_never_comes),
      unit_test(test_missing_rank_is_named_over_nccl), unit_test(test_missing_rank_is_named_when_staged))
