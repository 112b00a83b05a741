/* ranks: 1  device: cpu */
/* The transport at the end of an epoch. This test forks and kills processes, in place of an agent. */
#include "lib/comm/membership/membership_table.h"
#include "lib/comm/transport/host_transport.h"
#include "lib/base/clock.h"
#include "lib/comm/direct/job.h"
#include "lib/comm/direct/network.h"
#include "tests/test.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OWN transport_own

/* ---- ranks that die ---- */
enum { STOP = 100, ROUNDS = 101 };            /* words: the test's request to stop; the rounds that rank 0 has made */
static struct own_memory *shared_memory;      /* as mapped by this child */

/* One round: every rank sends numbers of this epoch and round around the ring. */
static enum status go_around(void *world, struct comm_place *place, int32_t epoch, int32_t round) {
    enum { COUNT = 200000 };
    static int32_t x[COUNT], y[COUNT];
    int n = place->size, to = (place->rank + 1) % n, from = (place->rank + n - 1) % n;
    void *handle[2];
    bool done[2] = {false, false};
    for (int i = 0; i < COUNT; i++) x[i] = 1000000 * epoch + 1000 * round + 10 * place->rank + i % 7;
    int code = OWN.send(world, x, COUNT, INT32, to, 0, &handle[0]);
    if (code == TRANSPORT_OK) code = OWN.receive(world, y, COUNT, INT32, from, 0, &handle[1]);
    for (int i = 0; code == TRANSPORT_OK && (!done[0] || !done[1]); i++)
        if (!done[i % 2]) code = OWN.test(&handle[i % 2], &done[i % 2]);
    if (code == TRANSPORT_CHANGED) return E_EPOCH;
    for (int i = 0; code == TRANSPORT_OK && i < COUNT; i++)
        if (y[i] != 1000000 * epoch + 1000 * round + 10 * from + i % 7) code = 1;
    return code == TRANSPORT_OK ? OK : E_INTERNAL;
}

static enum status work_in_an_epoch(struct comm_place *place) {
    int32_t epoch = shared_memory->epoch, stop = 0;
    void *world;
    int size, rank;
    TRY(OWN.split(0, place->rank, &world, &size, &rank));
    enum status status = size == place->size && rank == place->rank ? OK : E_INTERNAL;
    for (int32_t round = 0; status == OK && !stop; round++) {
        status = go_around(world, place, epoch, round % 1000);
        stop = (int32_t)shared_memory->word[STOP];
        if (status == OK) status = OWN.share(&stop, sizeof stop);
        if (place->rank == 0) shared_memory->word[ROUNDS]++;
    }
    OWN.close(&world);
    return status;
}

static void live(const struct own_job *job) {
    struct comm_place place;
    own_job_tell(job);
    alarm(60);
    if (own_memory_map(job, &shared_memory) != OK) _exit(2);
    enum status status = OWN.start(NULL, NULL, &place);
    for (;;) {
        if (status == OK) status = work_in_an_epoch(&place);
        if (status != E_EPOCH) break;
        free(place.host);
        membership_direct.leave();
        status = membership_direct.enter(&place);
    }
    if (status == OK) OWN.finish();
    status_report();
    _exit(status == OK ? 0 : 1);
}

struct job { struct own_job own; struct own_memory *memory; pid_t pid[8]; bool alive[8]; int n_slots; };

/* Wait until rank 0 has made three more rounds, within 20 s. */
static void wait_for_rounds(struct job *j) {
    uint64_t until = j->memory->word[ROUNDS] + 3;
    for (int turns = 0; j->memory->word[ROUNDS] < until && turns < 20000; turns++) usleep(1000);
    for (int s = 0; s < j->n_slots && j->memory->word[ROUNDS] < until; s++)
        if (j->alive[s]) kill(j->pid[s], SIGKILL);
    assert_true(j->memory->word[ROUNDS] >= until);
}

/* Kill a slot, and open an epoch without it. With several hosts, connections end before the epoch opens. */
static void kill_one(struct job *j, int slot, bool at_once) {
    if (!at_once) wait_for_rounds(j);
    kill(j->pid[slot], SIGKILL);
    waitpid(j->pid[slot], NULL, 0);
    if (j->own.n_nodes > 1) usleep(300000);
    j->alive[slot] = false;
    const struct membership_shape any = {1, 1, 0, 0, 0, {0}};
    const struct membership now = own_membership_now(j->memory);
    const struct membership next = membership_after(&now, true, j->alive, j->n_slots, &any);
    assert_ok(own_membership_open(j->memory, &j->own, &next, NULL));
}

/* Four ranks and a spare. Two die one after the other, and a third dies while the others enter the epoch. */
static void go_on_without_the_dead(int n_nodes) {
    struct job j = {.own = {.n_slots = 5, .n_nodes = n_nodes}, .n_slots = 5};
    assert_ok(own_memory_make(5, 4, &j.own.fd));
    assert_ok(own_memory_map(&j.own, &j.memory));
    for (j.own.slot = 0; j.own.slot < 5; j.own.slot++) {
        j.alive[j.own.slot] = true;
        j.pid[j.own.slot] = fork();
        if (j.pid[j.own.slot] == 0) live(&j.own);
    }
    kill_one(&j, 2, false);
    struct membership now = own_membership_now(j.memory);
    assert_true(now.number == 1 && now.n == 4 && now.slot[2] == 4);          /* the spare has the dead rank's place */
    kill_one(&j, 0, false);
    kill_one(&j, 4, true);
    wait_for_rounds(&j);
    now = own_membership_now(j.memory);
    j.memory->word[STOP] = 1;
    assert_true(now.number == 3 && now.n == 2 && now.slot[0] == 1 && now.slot[1] == 3);
    for (int s = 0; s < 5; s++) {
        int status = 0;
        if (!j.alive[s]) continue;
        waitpid(j.pid[s], &status, 0);
        assert_int_equal(status, 0);
        assert_int_equal(j.memory->line[s].state, OWN_FINISHED);
    }
    own_memory_unmap(j.memory);
    close(j.own.fd);
}

TEST(test_ranks_go_on_without_the_dead) {
    go_on_without_the_dead(1);
}

TEST(test_they_do_so_over_connections) {
    go_on_without_the_dead(2);
}

/* ---- a lent body, when its epoch ends ---- */
enum { BUSY = 102, LENT = 48 << 20 };         /* BUSY: a word that is 1 when the receiver begins to read */

/* Rank 0 lends a body, and overwrites it from its end as soon as it sees the next epoch. Rank 1 either finds that the
 * epoch has changed, or gets the message; it never gets other bytes. Neither rank is marked as finished. */
static void lend_and_leave(const struct own_job *job, struct own_memory *common) {
    struct comm_place place;
    void *world, *handle;
    int size, rank, code;
    bool done = false;
    char *x = malloc(LENT);
    own_job_tell(job);
    alarm(30);
    if (OWN.start(NULL, NULL, &place) != OK || OWN.split(0, 0, &world, &size, &rank) != OK) _exit(2);
    memset(x, rank == 0 ? 1 : 0, LENT);
    code = rank == 0 ? OWN.send(world, x, LENT, UINT8, 1, 0, &handle)
                     : OWN.receive(world, x, LENT, UINT8, 0, 0, &handle);
    common->word[BUSY] += (uint64_t)rank;
    while (code == TRANSPORT_OK && !done) code = OWN.test(&handle, &done);
    if (rank == 0 && code == TRANSPORT_CHANGED) {
        membership_direct.leave();
        for (int64_t i = LENT; i > 0; i--) x[i - 1] = 2;
    }
    for (int64_t i = 0; i < LENT && done; i++)
        if (x[i] != 1) _exit(3);
    _exit(done || code == TRANSPORT_CHANGED ? 0 : 1);
}

TEST(test_nobody_takes_what_was_lent_in_an_epoch_that_has_ended) {
    for (int trial = 0; trial < 6; trial++) {
        struct own_job job = {.n_slots = 2};
        struct own_memory *common;
        pid_t pid[2];
        assert_ok(own_memory_make(2, 2, &job.fd));
        assert_ok(own_memory_map(&job, &common));
        for (job.slot = 0; job.slot < 2; job.slot++)
            if ((pid[job.slot] = fork()) == 0) lend_and_leave(&job, common);
        for (int i = 0; i < 20000 && common->word[BUSY] == 0; i++) usleep(500);
        usleep(1000 * (unsigned)trial);
        struct membership next = own_membership_now(common);
        next.number++;
        assert_ok(own_membership_open(common, &job, &next, NULL));
        for (int r = 0; r < 2; r++) {
            int status = -1;
            waitpid(pid[r], &status, 0);
            assert_int_equal(status, 0);
        }
        own_memory_unmap(common);
        close(job.fd);
    }
}

/* ---- a rank that is never reached ---- */
/* Rank 0: start waits for rank 1 until its deadline; then it enters an epoch alone, if one opens. */
static void wait_for_the_other(const struct own_job *job) {
    struct comm_place place;
    own_job_tell(job);
    alarm(30);
    comm_settings_are(&(struct comm_settings){.timeout_s = 0.3});
    enum status status = OWN.start(NULL, NULL, &place);
    if (status == E_EPOCH) {
        free(place.host);
        membership_direct.leave();
        status = membership_direct.enter(&place);
        if (status == OK) OWN.finish();
    }
    _exit(status == OK && place.size == 1 ? 0 : status);
}

/* Rank 1's address accepts connections, but no process answers. Rank 0 reports the missing rank, if it is on another
 * host, and waits for an epoch without it. Rank 0 fails only if none opens. */
static void is_without_the_other(int n_nodes, bool opens) {
    struct own_job job = {.n_slots = 2, .n_nodes = n_nodes};
    struct own_memory *memory;
    struct network_address at = {INADDR_LOOPBACK, 0};
    int listening, status = -1;
    assert_ok(own_memory_make(2, 2, &job.fd));
    assert_ok(own_memory_map(&job, &memory));
    assert_ok(wire_listen(&at, "", &listening));
    memory->address[1] = (uint64_t)at.ip << 16 | at.port;
    const double from_s = clock_s();
    const int lost = n_nodes > 1 ? own_slot_word(0, 1) : 0;
    const pid_t pid = fork();
    if (pid == 0) wait_for_the_other(&job);
    while (clock_s() < from_s + 1.3 || (memory->line[0].lost != lost && clock_s() < from_s + 10)) usleep(1000);
    assert_int_equal(memory->line[0].lost, lost);
    const struct membership next = {.number = 1, .n = 1, .from = -1, .slot = {0}};
    if (opens) assert_ok(own_membership_open(memory, &job, &next, NULL));
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), opens ? 0 : E_TIMEOUT);
    own_memory_unmap(memory);
    close(listening);
    close(job.fd);
}

TEST(test_who_is_never_reached_is_named) {
    is_without_the_other(2, true);
    is_without_the_other(1, true);
    is_without_the_other(2, false);
}

/* ---- the end of the last epoch ---- */
static bool opens(struct own_memory *memory, const struct own_job *job, const struct membership *next) {
    bool opened;
    assert_ok(own_membership_open(memory, job, next, &opened));
    return opened;
}

TEST(test_an_epoch_is_closed_or_followed) {
    struct own_job job = {.n_slots = 3};
    struct own_memory *memory;
    struct membership next = {.number = 1, .n = 2, .slot = {0, 2}};
    assert_ok(own_memory_make(3, 3, &job.fd));
    assert_ok(own_memory_map(&job, &memory));
    assert_true(opens(memory, &job, &next));
    assert_false(own_membership_close(memory, 0));                   /* epoch 1 was opened before */
    assert_false(own_membership_is_closed(memory));
    assert_true(own_membership_close(memory, 1) && own_membership_close(memory, 1));
    next.number = 2;
    assert_false(opens(memory, &job, &next));
    assert_true(own_membership_is_closed(memory) && own_membership_now(memory).number == 1 &&
                own_membership_now(memory).n == 2);
    own_memory_unmap(memory);
    close(job.fd);
}

TEST(test_what_is_lost_is_so_in_its_epoch) {
    for (int epoch = 0; epoch < 3000; epoch += 7) {
        assert_int_equal(own_word_slot(own_slot_word(epoch, 255), epoch), 255);
        assert_int_equal(own_word_slot(own_slot_word(epoch, 0), epoch), 0);
        assert_int_equal(own_word_slot(own_slot_word(epoch, 3), epoch + 1), -1);
        assert_int_equal(own_word_slot(0, epoch), -1);               /* a word of 0 names no slot */
    }
}

TESTS(unit_test(test_ranks_go_on_without_the_dead), unit_test(test_they_do_so_over_connections),
      unit_test(test_nobody_takes_what_was_lent_in_an_epoch_that_has_ended),
      unit_test(test_who_is_never_reached_is_named),
      unit_test(test_an_epoch_is_closed_or_followed), unit_test(test_what_is_lost_is_so_in_its_epoch))
