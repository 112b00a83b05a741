/* ranks: 1  device: cpu */
/* The transport without the rest of lib/comm: processes that this test forks, as the agent does. */
#include "lib/base/log.h"
#include "lib/comm/direct/job.h"
#include "lib/comm/direct/lent.h"
#include "lib/comm/membership/membership_table.h"
#include "lib/comm/transport/host_transport.h"
#include "tests/test.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4 };
#define OWN transport_own

/* Each of n ranks runs a rank_main; if it fails, the test fails. @return whether all ranks are marked as finished */
typedef bool rank_main(struct comm_place *);
static int n_nodes = 1;         /* of the next runs */
static unsigned refused;        /* in the next runs, rank r may not read other ranks' memory if bit r is set */
static enum own_reads reads[OWN_MOST_RANKS]; /* after a run: can each rank read the others' memory? */
static const int16_t *hosts;    /* in the next runs, the host of each slot; NULL: one host has all */
static bool closes;             /* in the next runs, the lighthouse closes the epoch after all ranks have asked */
/* From here on the kernel does not let this process read other processes' memory, as in a container without ptrace. */
static void be_refused(void) {
    struct sock_filter rule[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_process_vm_readv, 0, 1),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof rule / sizeof *rule, rule};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) _exit(9);
}

static bool run(int n, rank_main *main) {
    struct own_job job = {.n_slots = n, .n_nodes = n_nodes, .ip = hosts ? 0x7f000002 : 0};
    struct own_memory *memory;
    pid_t pid[OWN_MOST_RANKS];
    assert_ok(own_memory_make(n, n, &job.fd));
    assert_ok(own_memory_map(&job, &memory));
    if (hosts) {                /* as an agent of several hosts does */
        struct membership first = own_membership_now(memory);
        memcpy(memory->host, hosts, (size_t)n * sizeof *hosts);
        assert_ok(own_membership_open(memory, &job, &first, NULL));
    }
    for (job.slot = 0; job.slot < n; job.slot++) {
        pid[job.slot] = fork();
        if (pid[job.slot]) continue;
        struct comm_place place;
        own_job_tell(&job);
        alarm(30);
        if (refused >> job.slot & 1) be_refused();
        bool ok = OWN.start(NULL, NULL, &place) == OK && main(&place);
        if (ok) OWN.finish();
        _exit(ok ? 0 : 1);
    }
    bool ok = true;
    for (int r = 0; closes && r < n; r++)
        while (memory->line[r].closes != 1) usleep(1000);
    ok &= !closes || (!own_membership_is_closed(memory) && own_membership_close(memory, 0));
    for (int r = 0; r < n; r++) {
        int status;
        waitpid(pid[r], &status, 0);
        ok &= status == 0 && memory->line[r].state == OWN_FINISHED;
        reads[r] = (enum own_reads)memory->line[r].reads;
    }
    own_memory_unmap(memory);
    close(job.fd);
    return ok;
}

static bool wait_for(void **handle) {
    for (bool done = false; !done;)
        if (OWN.test(handle, &done) != TRANSPORT_OK) return false;
    return true;
}

/* Each rank of a communicator sends a number to every rank, itself included. Does this rank get the numbers for it? */
static bool all_to_all(void *communicator, int size, int rank, int salt) {
    int32_t sent[N], got[N];
    void *handle[2 * N];
    bool ok = true;
    for (int r = 0; r < size; r++) {
        sent[r] = salt + 100 * rank + r;
        ok &= OWN.send(communicator, &sent[r], 1, INT32, r, salt, &handle[r]) == TRANSPORT_OK;
        ok &= OWN.receive(communicator, &got[r], 1, INT32, r, salt, &handle[N + r]) == TRANSPORT_OK;
    }
    for (int r = 0; r < size; r++) ok = wait_for(&handle[r]) && wait_for(&handle[N + r]) && ok;
    for (int r = 0; r < size; r++) ok &= got[r] == salt + 100 * r + rank;
    return ok;
}

/* ---- the world ---- */
static bool a_place(struct comm_place *place) {
    char word[8] = "other";
    if (place->rank == 0) strcpy(word, "rank 0");
    bool ok = place->size == N && place->local_rank == place->rank && place->local_size == N && place->host[N - 1] == 0;
    return ok && OWN.share(word, sizeof word) == OK && strcmp(word, "rank 0") == 0;
}

/* Exit with code 0 without being marked as finished. */
static bool ends_early(struct comm_place *place) { _exit(place->rank); }

TEST(test_the_world) {
    assert_true(run(N, a_place));
    assert_false(run(1, ends_early));
}

/* ---- communicators ---- */
/* Split by colours 0, 1, 0, 1 with keys of descending rank; then all ranks with equal keys. */
static bool splits(struct comm_place *place) {
    void *evens, *same, *again, *twin, *twins_twin, *alone;
    int size, rank, member[N];
    bool ok = OWN.split(place->rank % 2, -place->rank, &evens, &size, &rank) == OK;
    ok &= size == 2 && rank == (place->rank < 2 ? 1 : 0);
    ok &= OWN.members(evens, size, member) == OK && member[0] == 2 + place->rank % 2 && member[1] == place->rank % 2;
    ok &= all_to_all(evens, size, rank, 1);
    ok &= OWN.split(0, 7, &same, &size, &rank) == OK && size == N && rank == place->rank;
    ok &= OWN.split(0, 7, &again, &size, &rank) == OK;
    ok &= OWN.duplicate(same, &twin) == OK && OWN.duplicate(same, &twins_twin) == OK;
    ok &= OWN.split(GROUP_ALL_ALONE, 0, &alone, &size, &rank) == OK && size == 1 && rank == 0;
    ok &= all_to_all(alone, 1, 0, 2);
    ok &= OWN.split(place->rank < 2 ? -1 : 0, 0, &alone, &size, &rank) == OK && size == (place->rank < 2 ? 1 : N - 2);
    ok &= all_to_all(alone, size, rank, 3);

    /* with one tag in four communicators of the same ranks, each receive gets the message of its communicator */
    int to = (place->rank + 1) % N, from = (place->rank + N - 1) % N;
    void *of[4] = {same, twin, twins_twin, again}, *sent[4], *got[4];
    int32_t x[4] = {10, 11, 12, 13}, y[4] = {0};
    for (int i = 0; i < 4; i++) ok &= OWN.send(of[i], &x[i], 1, INT32, to, 5, &sent[i]) == TRANSPORT_OK;
    for (int i = 3; i >= 0; i--) ok &= OWN.receive(of[i], &y[i], 1, INT32, from, 5, &got[i]) == TRANSPORT_OK;
    for (int i = 0; i < 4; i++) ok = wait_for(&sent[i]) && wait_for(&got[i]) && ok;
    return ok && y[0] == 10 && y[1] == 11 && y[2] == 12 && y[3] == 13;
}

TEST(test_communicators) {
    assert_true(run(N, splits));
}

/* ---- messages longer than a ring, both ways at once ---- */
static bool large(struct comm_place *place) {
    enum { COUNT = 1 << 20 };
    float *x = malloc(COUNT * sizeof *x), *y = malloc(COUNT * sizeof *y);
    void *world, *sent, *got;
    int size, rank, to = (place->rank + 1) % N, from = (place->rank + N - 1) % N;
    bool ok = OWN.split(0, 0, &world, &size, &rank) == OK;
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < COUNT; i++) x[i] = (float)(place->rank * 7 + i % 1000 + turn);
        ok &= OWN.send(world, x, COUNT, FP32, to, 0, &sent) == TRANSPORT_OK;
        ok &= OWN.receive(world, y, COUNT, FP32, from, 0, &got) == TRANSPORT_OK;
        ok = wait_for(&sent) && wait_for(&got) && ok;
        for (int i = 0; i < COUNT; i++) ok &= y[i] == (float)(from * 7 + i % 1000 + turn);
    }
    free(x);
    free(y);
    return ok;
}

TEST(test_messages_longer_than_a_ring) {
    assert_true(run(N, large));
    for (int r = 0; r < N; r++) assert_true(reads[r] == OWN_READS || reads[r] == OWN_CANNOT_READ);
    log_set_level(LOG_WARN);
    setenv("TRIVIUM_OWN_COPIES", "2", 1);
    assert_true(run(N, large));
    for (int r = 0; r < N; r++) assert_int_equal(reads[r], OWN_CANNOT_READ);
    unsetenv("TRIVIUM_OWN_COPIES");
    for (refused = 1 << 2; refused < 1 << N; refused += 11) {        /* one may not; all may not */
        assert_true(run(N, large));
        for (int r = 0; r < N; r++) assert_true(reads[r] == OWN_CANNOT_READ || !(refused >> r & 1));
    }
    refused = 0;
    log_set_level(LOG_INFO);
}

/* A line may name a process that has ended, or another process, which has another word at the sample's address. */
TEST(test_whose_memory_can_be_read) {
    static const uint64_t something = 1;
    struct own_line line = {0}, other;
    own_lent_allow(&line);
    assert_true(own_lent_try(&line));
    other = line, other.sample = (uintptr_t)&something;
    assert_false(own_lent_try(&other));
    other.sample = 0;
    assert_false(own_lent_try(&other));
    pid_t child = fork();
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
    other = line, other.pid = child;
    assert_false(own_lent_try(&other));
}

/* A rank ends, and another process gets its process number. That process has another value at the same address. */
TEST(test_another_process_with_a_ranks_number_is_not_read) {
    static uint64_t body;
    struct own_line *line = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(line != MAP_FAILED);
    pid_t child[2];
    for (int i = 0; i < 2; i++) {
        child[i] = fork();
        if (child[i] == 0) {
            body = 10 + (uint64_t)i;
            own_lent_allow(&line[i]);
            for (;;) pause();
        }
        while (!line[i].mark) usleep(1000);
    }
    uint64_t got = 0;
    bool may = own_lent_try(&line[0]), right = own_lent_read(&line[0], &got, (uintptr_t)&body, sizeof body);
    line[0].pid = child[1];
    bool stranger = own_lent_read(&line[0], &(uint64_t){0}, (uintptr_t)&body, sizeof body);
    for (int i = 0; i < 2; i++) {
        kill(child[i], SIGKILL);
        waitpid(child[i], NULL, 0);
    }
    munmap(line, 4096);
    if (!may) skip();                                              /* this system lets no process read another */
    assert_true(right && got == 10);
    assert_false(stranger);
}

/* ---- mail and words ---- */
static bool mails(struct comm_place *place) {
    struct mail mail = {.kind = MAIL_PING, .roll = place->rank};
    int seen = 0;
    for (int r = 0; r < N; r++)
        if (r != place->rank) OWN.mail_send(r, &mail);
    while (seen != ((1 << N) - 1) - (1 << place->rank)) {
        int from;
        struct mail got;
        if (!OWN.mail_receive(&from, &got)) continue;
        if (got.kind != MAIL_PING || got.roll != from || seen >> from & 1) return false;
        seen |= 1 << from;
    }
    return true;
}

static bool words(struct comm_place *place) {
    struct host_shared shared;
    bool ok = true;
    for (int turn = 0; turn < 2; turn++) {
        ok &= OWN.shared_make(2 * N, &shared) == OK && shared.word[N + place->rank] == 0;
        atomic_fetch_add(&shared.word[0], 1);
        while (atomic_load(&shared.word[0]) < N) usleep(100);
        shared.word[N + place->rank] = 5;
        OWN.shared_free(&shared);
    }
    ok &= OWN.shared_make(OWN_WORDS + 1, &shared) == E_CONFIG;
    status_clear();
    return ok;
}

TEST(test_mail_and_words) {
    assert_true(run(N, mails));
    assert_true(run(N, words));
}

/* ---- other hosts ---- */
TEST(test_which_slots_are_on_one_host) {
    const struct own_job one = {.n_slots = 4}, two = {.n_slots = 5, .n_nodes = 2}, each = {.n_slots = 3, .n_nodes = 3};
    const struct own_job spares = {.n_slots = 7, .n_nodes = 2, .n_first = 4};
    const int of_two[] = {0, 0, 0, 1, 1}, of_spares[] = {0, 0, 1, 1, 0, 1, 0};
    for (int s = 0; s < 7; s++) assert_int_equal(own_node(&spares, s), of_spares[s]);
    for (int s = 0; s < 4; s++) assert_int_equal(own_node(&one, s), 0);
    for (int s = 0; s < 5; s++) assert_int_equal(own_node(&two, s), of_two[s]);
    for (int s = 0; s < 3; s++) assert_int_equal(own_node(&each, s), s);
}

/* The same tests over TCP, between some of the ranks and between all. */
TEST(test_over_connections_it_is_the_same) {
    for (n_nodes = 2; n_nodes <= N; n_nodes += N - 2) {
        assert_true(run(N, a_place));
        assert_true(run(N, splits));
        assert_true(run(N, large));
        assert_true(run(N, mails));
        assert_true(run(N, words));
    }
    n_nodes = 1;
}

/* Slots 0 and 2 are on host 7, 1 and 3 on host 3. Hosts are numbered in the order of their first ranks: 0, 1. */
static bool a_place_on_a_host(struct comm_place *place) {
    bool ok = place->size == N && place->local_size == 2 && place->local_rank == place->rank / 2;
    for (int r = 0; r < N; r++) ok &= place->host[r] == r % 2;
    return ok;
}

/* No rank closes the epoch by itself; each waits until the lighthouse closes it. */
static bool close_it(struct comm_place *place) {
    return (void)place, membership_direct.close() && membership_direct.is_closed();
}

TEST(test_hosts) {
    static const int16_t of[] = {7, 3, 7, 3};
    hosts = of;
    assert_true(run(N, a_place_on_a_host));
    assert_true(run(N, splits));
    assert_true(run(N, large));
    closes = true;
    assert_true(run(N, close_it));
    closes = false;
    hosts = NULL;
}

/* ---- the job's line ---- */
/* A process that slept since the first epoch shares its rings with no later epoch, even after many of them. */
TEST(test_no_two_epochs_have_the_same_rings) {
    struct own_job job = {.n_slots = 2};
    struct own_memory *memory;
    struct ring *rings[2];
    assert_ok(own_memory_make(2, 2, &job.fd));
    assert_ok(own_memory_map(&job, &memory));
    struct membership next = own_membership_now(memory);
    assert_ok(own_rings_map(&job, 0, &rings[0]));
    for (int32_t number = 4096; number < OWN_MOST_EPOCHS; number *= 2) {
        next.number = number;
        memory->epoch = number - 1;
        assert_ok(own_membership_open(memory, &job, &next, NULL));
        assert_ok(own_rings_map(&job, number, &rings[1]));
        memset(rings[0]->data, 1, 100);
        assert_int_equal(rings[1]->data[0], 0);
        own_rings_unmap(&job, rings[1]);
    }
    next.number = OWN_MOST_EPOCHS;
    memory->epoch = OWN_MOST_EPOCHS - 1;
    assert_fails(own_membership_open(memory, &job, &next, NULL), E_MEMORY, "epoch 1048576", "checkpoint");
    assert_int_equal(memory->epoch, OWN_MOST_EPOCHS - 1);
    own_rings_unmap(&job, rings[0]);
    own_memory_unmap(memory);
    close(job.fd);
}

TEST(test_a_job_is_told_and_found) {
    const char *const wrong[] = {"slot=4 slots=4 fd=3 nodes=1 first=4 ip=0",
                                 "slot=-1 slots=4 fd=3 nodes=1 first=4 ip=0",
                                 "slot=0 slots=0 fd=3 nodes=1 first=0 ip=0", "slot=0 slots=4 fd=3 first=4 ip=0",
                                 "slot=0 slots=4 fd=3 nodes=1 first=4", "slot=0 slots=4 fd=3 nodes=1 ip=0",
                                 "slot=0 slots=4 fd=3 nodes=1 first=4 ip=0 x", "yes",
                                 "slot=0 slots=99999 fd=3 nodes=1 first=4 ip=0",
                                 "slot=0 slots=4 fd=3 nodes=-1 first=4 ip=0",
                                 "slot=0 slots=4 fd=3 nodes=1 first=5 ip=0"};
    struct own_job job = {3, 4, 9, 2, 3, 0x7f000002}, found;
    bool is_one = true;
    unsetenv(OWN_JOB_VARIABLE);
    assert_ok(own_job_find(&found, &is_one));
    assert_false(is_one);
    own_job_tell(&job);
    assert_ok(own_job_find(&found, &is_one));
    assert_true(is_one && found.slot == 3 && found.n_slots == 4 && found.fd == 9 && found.n_nodes == 2 &&
                found.n_first == 3);
    assert_int_equal(found.ip, job.ip);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        setenv(OWN_JOB_VARIABLE, wrong[i], 1);
        assert_fails(own_job_find(&found, &is_one), E_CONFIG, wrong[i], "unset");
    }
    unsetenv(OWN_JOB_VARIABLE);
    int fd;
    assert_fails(own_memory_make(OWN_MOST_RANKS + 1, 1, &fd), E_CONFIG, "257", "256", "use fewer");
    assert_fails(own_memory_make(OWN_MOST_RANKS + 1, OWN_MOST_RANKS + 1, &fd), E_CONFIG, "257", "use fewer, or", "mpi");
    struct rlimit before, limit;
    getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    limit.rlim_cur = 100 << 10;
    setrlimit(RLIMIT_FSIZE, &limit);
    enum status status = own_memory_make(2, 2, &fd);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_fails(status, E_IO, "ulimit -f", "100", "raise it");
}

TESTS(unit_test(test_the_world), unit_test(test_communicators), unit_test(test_messages_longer_than_a_ring),
      unit_test(test_whose_memory_can_be_read),
      unit_test(test_another_process_with_a_ranks_number_is_not_read), unit_test(test_mail_and_words),
      unit_test(test_which_slots_are_on_one_host), unit_test(test_over_connections_it_is_the_same),
      unit_test(test_hosts), unit_test(test_no_two_epochs_have_the_same_rings),
      unit_test(test_a_job_is_told_and_found))
