/* ranks: 1  device: cpu */
/* The lighthouse, with this test as its agents: the messages it sends, and the epochs it opens. */
#include "launch/host_door.h"
#include "launch/host_job.h"
#include "launch/hosts.h"
#include "launch/agent.h"
#include "lib/base/clock.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static unsigned char secret[GREETING_SECRET];
static struct network_address at;
static pid_t lighthouse;
static char errors[64], meet[DOOR_TEXT];
static struct host_link host[3];
static bool is_silent[3];
static struct host_job job;

/* ---- a lighthouse, and agents ---- */
/* Find a free port: `at`, `meet`. */
static void find_port(void) {
    struct host_door door;
    assert_ok(host_door_open(&door, (struct network_address){0x7f000001, 0}, secret));
    at = door.at;
    host_door_close(&door);
    host_address_text(&at, meet);
}

/* Start a lighthouse with --host LIST and further options; its ranks would run /bin/true. */
static void start(const char *list, const char *options) {
    const char *words[] = {"--comm-transport", "direct", "--host", list, "--agent-command", "none", "--meet", meet};
    const char *argv[24];
    char text[SECRET_TEXT], more[256];
    struct launch_request request;
    int n = sizeof words / sizeof *words;
    assert_true(greeting_secret(secret));
    host_secret_text(secret, text);
    find_port();
    memcpy(argv, words, sizeof words);
    snprintf(more, sizeof more, "%s", options);
    for (char *word = strtok(more, " "); word; word = strtok(NULL, " ")) argv[n++] = word;
    argv[n++] = "/bin/true";
    argv[n] = NULL;
    snprintf(errors, sizeof errors, "%s", test_path("errors"));
    setenv("TRIVIUM_SECRET", text, 1);
    assert_ok(launch_parse(n, (char **)argv, &request));
    lighthouse = fork();
    if (lighthouse == 0) {
        FILE *f = fopen(errors, "w");
        dup2(fileno(f), STDERR_FILENO);
        setvbuf(stderr = f, NULL, _IONBF, 0);    /* the test runner has redirected stderr */
        alarm(30);
        _exit(lighthouse_main(&request));
    }
    unsetenv("TRIVIUM_SECRET");
}

static bool says(const char *text) {
    static char all[4096];
    FILE *f = fopen(errors, "r");
    size_t n = f ? fread(all, 1, sizeof all - 1, f) : 0;
    all[n] = 0;
    if (f) fclose(f);
    return strstr(all, text) != NULL;
}

static void come(int h, const char *name) {
    struct sealed wire;
    assert_ok(host_door_knock(at, 0, secret, 5, &wire));
    assert_ok(host_link_open(&host[h], &wire, false));
    host_link_say(&host[h], HOST_HERE, name, strlen(name));
    host_link_flush(&host[h], 1);
}

/* The next message to h, other than `alive`, within this number of seconds. Meanwhile the other hosts send `alive`. */
static bool hears(int h, double seconds, struct host_message *m) {
    for (double until_s = clock_s() + seconds; clock_s() < until_s; usleep(1000)) {
        for (int k = 0; k < 3; k++)
            if (host[k].fd >= 0 && !is_silent[k]) host_link_step(&host[k], clock_s());
        while (host_link_next(&host[h], m))
            if (m->kind != HOST_ALIVE) return true;
    }
    return false;
}
static bool hears_nothing(int h) {
    struct host_message m;
    return !hears(h, 0.3, &m);
}
static struct host_word hears_word(int h, enum host_kind kind) {
    struct host_message m;
    assert_true(hears(h, 5, &m));
    assert_int_equal(m.kind, kind);
    return host_link_word(&m);
}
static struct membership hears_epoch(int h) {
    struct host_message m;
    struct membership e;
    assert_true(hears(h, 5, &m));
    assert_int_equal(m.kind, HOST_EPOCH);
    memcpy(&e, m.body, sizeof e);
    return e;
}

static void hears_job(int h) {
    struct host_message m;
    struct host_texts t;
    assert_true(hears(h, 5, &m));
    assert_int_equal(m.kind, HOST_JOB);
    assert_ok(host_job_read(&m, &t));
    job = t.job;
    assert_string_equal(t.words[0], "/bin/true");
    assert_int_equal(job.me, h);
    host_texts_free(&t);
}

static void leave(int h) {
    host_link_close(&host[h]);
    host[h].fd = -1;
}

/* End the job by a signal. Agents leave only after the lighthouse has seen it, because an earlier end would be a lost
 * host. @return the exit code */
static int finish(void) {
    struct host_message m;
    int status, h = 0;
    kill(lighthouse, SIGTERM);
    while (h < 3 && (host[h].fd < 0 || is_silent[h])) h++;
    while (h < 3 && hears(h, 5, &m) && !(m.kind == HOST_SIGNAL && host_link_word(&m).value == SIGTERM)) continue;
    for (h = 0; h < 3; h++) leave(h);
    waitpid(lighthouse, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}
static int ends(void) {
    int status;
    waitpid(lighthouse, &status, 0);
    for (int h = 0; h < 3; h++) leave(h);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* options: --elastic and further options. */
static void begin(const char *list, const char *options) {
    static const char *const names[] = {"a", "b", "c"};
    int n = 1;
    for (const char *x = list; *x; x++) n += *x == ',';
    for (int h = 0; h < 3; h++) host[h] = (struct host_link){.fd = -1}, is_silent[h] = false;
    start(list, options);
    for (int h = 0; h < n; h++) come(h, names[h]);
    for (int h = 0; h < n; h++) hears_job(h);
}

/* Begin a job in which any rank may be left out, by the shape that rank 0 sends. */
static void begin_elastic(const char *list, const char *options) {
    const struct membership_shape any_number = {1, 1, 0, 0, 0, {0}};
    begin(list, options);
    host_link_say(&host[0], HOST_SHAPE, &any_number, sizeof any_number);
    host_link_flush(&host[0], 1);
}

/* ---- tests ---- */
TEST(test_the_job_begins_when_all_are_here) {
    for (int h = 0; h < 3; h++) host[h] = (struct host_link){.fd = -1};
    start("a:2,b:1", "");
    come(1, "b");
    assert_true(hears_nothing(1));
    come(0, "a");
    hears_job(0);
    hears_job(1);
    assert_true(job.n_slots == 3 && job.n == 3 && job.host[1] == 0 && job.host[2] == 1);
    assert_int_equal(finish(), 128 + SIGTERM);
}

TEST(test_what_is_passed_on) {
    begin_elastic("a:2,b:1", "--elastic 1");
    host_link_say_word(&host[0], HOST_ADDRESS, 1, 0, 0x7f00000112345);
    struct host_word word = hears_word(1, HOST_ADDRESS);
    assert_true(word.slot == 1 && word.value == 0x7f00000112345);
    host_link_say_word(&host[1], HOST_KEPT, 0, 0, 77);
    assert_true(hears_word(0, HOST_KEPT).value == 77);
    assert_true(hears_nothing(1));                                   /* `kept` does not go back to its sender */
    kill(lighthouse, SIGUSR1);
    assert_true(hears_word(0, HOST_SIGNAL).value == SIGUSR1 && hears_word(1, HOST_SIGNAL).value == SIGUSR1);
    assert_int_equal(finish(), 128 + SIGTERM);
}

/* Hosts receive `committed` only after all members have committed. The next epoch goes back to the last committed
 * one. */
TEST(test_whole_is_what_all_have_said) {
    begin_elastic("a:1,b:1,c:1", "--elastic 1");
    host_link_say_word(&host[0], HOST_COMMITTED, 0, 0, 0);
    host_link_say_word(&host[1], HOST_COMMITTED, 1, 0, 0);
    assert_true(hears_nothing(0) && hears_nothing(2));
    host_link_say_word(&host[2], HOST_COMMITTED, 2, 0, 0);
    for (int h = 0; h < 3; h++) assert_int_equal(hears_word(h, HOST_COMMITTED).epoch, 0);
    leave(2);
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.from == 0 && e.n == 2 && e.slot[0] == 0 && e.slot[1] == 1);
    assert_true(hears_epoch(1).host[1] == 1);
    host_link_say_word(&host[0], HOST_COMMITTED, 0, 1, 0);
    host_link_say_word(&host[1], HOST_COMMITTED, 1, 0, 0);           /* a late message of the previous epoch */
    assert_true(hears_nothing(0));
    leave(1);                                                        /* so epoch 1 is never committed */
    e = hears_epoch(0);
    assert_true(e.number == 2 && e.from == 0 && e.n == 1 && e.slot[0] == 0);
    assert_int_equal(finish(), 128 + SIGTERM);
}

TEST(test_a_host_that_is_lost_is_one_epoch) {
    begin_elastic("a:2,b:3,c:3", "--elastic 5 --spares 3");
    leave(1);
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.n == 5 && e.slot[2] == 5 && e.slot[3] == 6 && e.slot[4] == 7 && e.host[4] == 2);
    assert_true(hears_epoch(2).number == 1 && hears_nothing(0));
    assert_true(says("host b is lost (its connection has ended); epoch 1 goes on with 5 ranks"));
    assert_int_equal(finish(), 128 + SIGTERM);
}

/* Until the shape of a replica is known, no rank is left out. */
TEST(test_before_the_shape_is_known) {
    begin("a:2,b:1,c:1", "--elastic 1 --spares 1");
    leave(1);
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.n == 3 && e.slot[2] == 3 && hears_epoch(2).number == 1);
    leave(2);
    assert_true(hears_word(0, HOST_SIGNAL).value == SIGTERM && says("2 ranks are left, of which 0 can go on"));
    leave(0);
    assert_int_equal(ends(), 1);
}

/* A message that a host may not send ends the host, not the job. */
static void is_lost_after(enum host_kind kind, const void *body, size_t bytes) {
    begin_elastic("a:2,b:1", "--elastic 1");
    host_link_say(&host[1], kind, body, bytes);
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.n == 2);
    struct host_message m;
    assert_true(!hears(1, 0.3, &m) && host[1].broken);
    assert_int_equal(finish(), 128 + SIGTERM);
}
TEST(test_who_says_what_it_may_not_is_lost) {
    const struct host_word of_a = {.slot = 0, .value = 9}, of_nobody = {.slot = 99}, no_state = {.slot = 2, .value = 7},
                            no_request = {.slot = 2, .value = 5}, no_loss = {.slot = 2, .value = -1};
    const struct membership_shape no_shape = {0, 1, 0, 0, 0, {0}}, of_four = {4, 1, 0, 0, 0, {0}};
    is_lost_after(HOST_ENDED, &of_a, sizeof of_a);
    is_lost_after(HOST_ADDRESS, &of_nobody, sizeof of_nobody);
    is_lost_after(HOST_STATE, &no_state, sizeof no_state);
    is_lost_after(HOST_REQUEST, &no_request, sizeof no_request);
    is_lost_after(HOST_LOST, &no_loss, sizeof no_loss);
    is_lost_after(HOST_SHAPE, &no_shape, sizeof no_shape);
    is_lost_after(HOST_SHAPE, &of_four, sizeof of_four);
    is_lost_after(HOST_HERE, "b", 1);
    is_lost_after(HOST_EPOCH, &(struct membership){.number = 1, .n = 1}, sizeof(struct membership));
}

/* Host b is silent and may live. The job continues only if more than half of the ranks are connected. */
TEST(test_without_a_sign) {
    begin_elastic("a:2,b:1", "--elastic 1 --heartbeat-timeout 1");
    is_silent[1] = true;
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.n == 2 && says("host b is lost (no sign of it for the 1 s of --heartbeat-timeout)"));
    assert_int_equal(finish(), 128 + SIGTERM);

    begin_elastic("a:2,b:2", "--elastic 1 --heartbeat-timeout 1");
    is_silent[1] = true;
    assert_true(hears_word(0, HOST_SIGNAL).value == SIGTERM);
    leave(0);
    assert_int_equal(ends(), 1);
    assert_true(says("2 of 4 ranks may live there, and the 2 that are reached are not more") && !says("epoch 1"));

    /* two hosts that fall silent one after the other count as if at once */
    begin_elastic("a:2,b:1,c:1", "--elastic 1 --heartbeat-timeout 1");
    for (int s = 0; s < 4; s++) host_link_say_word(&host[s < 2 ? 0 : s - 1], HOST_COMMITTED, s, 0, 0);
    for (int h = 0; h < 3; h++) assert_int_equal(hears_word(h, HOST_COMMITTED).epoch, 0);
    is_silent[2] = true;
    assert_int_equal(hears_epoch(0).n, 3);
    is_silent[1] = true;
    assert_true(hears_word(0, HOST_SIGNAL).value == SIGTERM);
    leave(0);
    assert_int_equal(ends(), 1);
    assert_true(says("2 of 4 ranks may live there, and the 2 that are reached are not more") && !says("epoch 2"));
}

/* As on one host, a signal is a death, an error ends all ranks, and the end of a finished rank is no loss. */
TEST(test_ranks_that_end) {
    begin_elastic("a:2,b:1", "--elastic 1");
    host_link_say_word(&host[0], HOST_ENDED, 1, 0, SIGKILL);
    struct membership e = hears_epoch(1);
    assert_true(e.number == 1 && e.n == 2 && e.slot[1] == 2);
    assert_true(says("signal 9 (Killed) has killed rank 1 on a; epoch 1"));
    host_link_say_word(&host[1], HOST_ENDED, 2, 0, 5 << 8);
    assert_true(hears_epoch(0).number == 1 && hears_word(0, HOST_SIGNAL).value == SIGTERM);
    host_link_say_word(&host[0], HOST_ENDED, 0, 0, SIGTERM);
    assert_true(hears_word(0, HOST_OVER).value == 5);
    assert_int_equal(ends(), 5);
    assert_true(says("trivium agent: rank 2 on host b ended with code 5"));

    begin_elastic("a:1,b:1,c:1", "--elastic 2 --spares 1");
    for (int h = 0; h < 2; h++) {
        host_link_say_word(&host[h], HOST_STATE, h, 0, OWN_FINISHED);
        host_link_say_word(&host[h], HOST_ENDED, h, 0, 0);
    }
    assert_true(hears_word(2, HOST_SIGNAL).value == SIGTERM);        /* the spare is not needed any more */
    host_link_say_word(&host[2], HOST_ENDED, 2, 0, SIGTERM);
    assert_true(hears_word(2, HOST_OVER).value == 0);
    assert_int_equal(ends(), 0);
}

/* A rank leaves: this epoch ends at the edge of a step, and the process ends when the next epoch is committed. */
TEST(test_who_leaves) {
    begin_elastic("a:2,b:1", "--elastic 2");
    for (int s = 0; s < 3; s++) {
        host_link_say_word(&host[s / 2], HOST_STATE, s, 0, OWN_RUNNING);
        host_link_say_word(&host[s / 2], HOST_COMMITTED, s, 0, 0);
    }
    assert_true(hears_word(0, HOST_COMMITTED).epoch == 0 && hears_word(1, HOST_COMMITTED).epoch == 0);
    host_link_say_word(&host[0], HOST_REQUEST, 1, 0, MEMBER_LEAVES);
    assert_true(hears_word(0, HOST_ENDS).epoch == 0 && hears_word(1, HOST_ENDS).epoch == 0);
    for (int s = 0; s < 2; s++) host_link_say_word(&host[0], HOST_DRAINED, s, 0, 0);
    assert_true(hears_nothing(0));                                   /* rank 2 has not drained yet */
    host_link_say_word(&host[1], HOST_DRAINED, 2, 0, 0);
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.from == 0 && e.n == 2 && e.slot[0] == 0 && e.slot[1] == 2);
    assert_true(hears_epoch(1).number == 1 && says("rank 1 leaves; epoch 1 goes on with 2 ranks"));
    host_link_say_word(&host[0], HOST_COMMITTED, 0, 1, 0);
    assert_true(hears_nothing(0));                                   /* process 1's state may still be needed */
    host_link_say_word(&host[1], HOST_COMMITTED, 2, 1, 0);
    assert_true(hears_word(0, HOST_COMMITTED).epoch == 1 && hears_word(1, HOST_COMMITTED).epoch == 1);
    struct host_word word = hears_word(0, HOST_SIGNAL);
    assert_true(word.slot == 1 && word.value == SIGKILL);            /* only host a gets the signal */
    host_link_say_word(&host[0], HOST_ENDED, 1, 0, SIGKILL);
    assert_true(hears_nothing(0) && hears_nothing(1) && says("process 1 has left"));
    assert_int_equal(finish(), 128 + SIGTERM);
}

/* Ranks 1 and 2 report that they have lost each other in this epoch. */
static void lose_each_other(int32_t epoch) {
    host_link_say_word(&host[0], HOST_LOST, 1, 0, own_slot_word(epoch, 2));
    host_link_say_word(&host[1], HOST_LOST, 2, 0, own_slot_word(epoch, 1));
}
static void all_commit(int32_t epoch) {
    for (int s = 0; s < 3; s++) host_link_say_word(&host[s / 2], HOST_COMMITTED, s, epoch, 0);
    for (int h = 0; h < 2; h++) assert_int_equal(hears_word(h, HOST_COMMITTED).epoch, epoch);
}

/* Two live ranks get an epoch of the same ranks; if their connection fails again, the greater one is killed. */
TEST(test_two_that_have_lost_each_other) {
    begin_elastic("a:2,b:1", "--elastic 2");
    all_commit(0);
    lose_each_other(7);
    assert_true(hears_nothing(0));                                   /* epoch 7 does not exist */
    lose_each_other(0);
    struct membership e = hears_epoch(0);
    assert_true(e.number == 1 && e.from == 0 && e.n == 3 && e.slot[2] == 2 && hears_epoch(1).number == 1);
    assert_true(says("ranks 1 and 2 have lost each other; epoch 1 goes on with 3 ranks"));
    all_commit(1);
    lose_each_other(1);                                              /* again, but epoch 1 is committed */
    e = hears_epoch(0);
    assert_true(e.number == 2 && e.from == 1 && e.n == 3 && hears_epoch(1).number == 2);
    lose_each_other(2);
    struct host_word word = hears_word(1, HOST_SIGNAL);
    assert_true(word.slot == 2 && word.value == SIGKILL && hears_nothing(1) && hears_nothing(0));
    assert_true(says("rank 2 cannot be reached by rank 1, and is killed"));
    host_link_say_word(&host[1], HOST_ENDED, 2, 0, SIGKILL);
    e = hears_epoch(0);
    assert_true(e.number == 3 && e.from == 1 && e.n == 2 && e.slot[1] == 1);
    assert_int_equal(finish(), 128 + SIGTERM);
}

/* The first rank that closes the epoch closes it for all hosts. After that a death does no harm. */
TEST(test_when_all_is_done) {
    begin_elastic("a:2,b:1", "--elastic 1 --respawn 1");
    host_link_say_word(&host[0], HOST_ENDED, 1, 0, SIGKILL);
    assert_true(hears_epoch(0).number == 1 && hears_epoch(1).number == 1);
    for (int h = 0; h < 2; h++) assert_int_equal(hears_word(h, HOST_PLACE).slot, 3);
    host_link_say_word(&host[1], HOST_CLOSES, 2, 0, 0);              /* too late: epoch 1 is open */
    assert_true(hears_nothing(0) && hears_nothing(1));
    host_link_say_word(&host[1], HOST_CLOSES, 2, 1, 0);
    for (int h = 0; h < 2; h++) assert_int_equal(hears_word(h, HOST_CLOSED).epoch, 1);
    host_link_say_word(&host[0], HOST_CLOSES, 0, 1, 0);
    assert_true(hears_nothing(0) && hears_nothing(1));               /* `closed` is sent only once */
    host_link_say_word(&host[0], HOST_ENDED, 0, 0, SIGKILL);
    assert_true(hears_nothing(1) && says("has killed rank 0 on a; nothing is lost"));
    assert_int_equal(finish(), 128 + SIGTERM);
}

/* --chaos: acts go to the hosts of running ranks; the costs are printed at the end. */
TEST(test_chaos) {
    int n[N_HOST_KINDS] = {0};
    struct host_message m;
    begin_elastic("a:2,b:1", "--elastic 3 --hang-timeout 0.1 --chaos-every 0.02 --chaos 7");
    for (int s = 0; s < 3; s++) host_link_say_word(&host[s / 2], HOST_STATE, s, 0, OWN_RUNNING);
    all_commit(0);
    lose_each_other(0);
    assert_true(hears_epoch(0).number == 1 && hears_epoch(1).number == 1);
    all_commit(1);
    assert_true(hears_nothing(0) && hears_nothing(1));               /* no acts before the first step */
    for (int step = 1; step <= 50; step++) {
        host_link_say_word(&host[0], HOST_DONE, 0, 0, own_done(1, step));
        for (int h = 0; h < 2; h++)
            while (hears(h, 0.01, &m)) {
                const struct host_word word = host_link_word(&m);
                assert_true(word.slot / 2 == h);
                if (m.kind == HOST_SIGNAL)                           /* --elastic 3: no rank may die */
                    assert_true(word.value == SIGSTOP || word.value == SIGCONT);
                if (m.kind == HOST_CUT) assert_true(word.value / 2 == 1 - h && word.epoch == 1);
                n[m.kind]++;
            }
    }
    assert_true(n[HOST_SIGNAL] > 2 && n[HOST_CUT] > 2);
    assert_int_equal(finish(), 128 + SIGTERM);
    assert_true(says("chaos 7: 0 killed"));
}

/* --respawn: new processes replace the dead ones of a host, and those of a lost host after it has connected again. */
TEST(test_in_place_of_the_dead) {
    begin_elastic("a:1,b:2", "--elastic 1 --respawn 2");
    assert_true(job.n_slots == 5 && job.host[3] == -1);
    host_link_say_word(&host[0], HOST_ADDRESS, 0, 0, 99);
    assert_true(hears_word(1, HOST_ADDRESS).value == 99);
    host_link_say_word(&host[1], HOST_ENDED, 2, 0, SIGKILL);
    assert_true(hears_epoch(0).n == 2 && hears_epoch(1).n == 2);
    for (int h = 0; h < 2; h++) {
        struct host_word word = hears_word(h, HOST_PLACE);
        assert_true(word.slot == 3 && word.value == 1);
    }
    leave(1);
    assert_true(hears_epoch(0).n == 1 && hears_nothing(0));          /* b is not connected */
    come(1, "b");
    hears_job(1);
    assert_true(job.me == 1 && job.mine_from == 4 && job.host[1] == 1 && job.host[4] == -1);
    struct host_word of_0 = hears_word(1, HOST_ADDRESS);
    assert_true(of_0.slot == 0 && of_0.value == 99 && hears_word(1, HOST_KEPT).value == 0);
    struct membership now = hears_epoch(1);
    assert_true(now.number == 2 && now.n == 1 && now.slot[0] == 0);
    assert_true(hears_word(0, HOST_PLACE).slot == 4 && hears_word(1, HOST_PLACE).value == 1);
    leave(1);
    assert_true(hears_nothing(0));                                   /* host b had only spares */
    come(2, "b");
    struct host_message m;
    assert_false(hears(2, 0.3, &m));                                 /* --respawn 2 is used up */
    assert_int_equal(finish(), 128 + SIGTERM);
}

/* Slot `epoch` - 1 dies before the last epoch is committed. Only host a is connected and receives epoch `epoch`. */
static void another_dies(int32_t epoch, int place) {
    host_link_say_word(&host[0], HOST_ENDED, epoch - 1, 0, SIGKILL);
    struct membership e = hears_epoch(0);
    assert_true(e.number == epoch && e.from == 1 && e.n == 10 - epoch);
    assert_int_equal(hears_word(0, HOST_PLACE).slot, place);
}

static void comes_again(void) {
    struct host_message m;
    come(1, "b");
    hears_job(1);
    while (hears(1, 5, &m) && m.kind == HOST_ADDRESS) continue;
    assert_int_equal(m.kind, HOST_KEPT);
}

/* A host that connects again receives the members of the epoch that all ranks go back to, unless it is too old. */
TEST(test_epochs_of_who_comes_again) {
    begin_elastic("a:9,b:1", "--elastic 1 --respawn 12");
    leave(1);
    assert_true(hears_epoch(0).number == 1);
    for (int s = 0; s < 9; s++) host_link_say_word(&host[0], HOST_COMMITTED, s, 1, 0);
    assert_int_equal(hears_word(0, HOST_COMMITTED).epoch, 1);
    for (int32_t epoch = 2; epoch <= 8; epoch++) another_dies(epoch, 8 + epoch);
    comes_again();
    struct membership from = hears_epoch(1), now = hears_epoch(1);
    assert_true(from.number == 1 && from.n == 9 && now.number == 8 && now.from == 1);
    assert_true(hears_word(0, HOST_PLACE).slot == 17 && hears_word(1, HOST_PLACE).slot == 17);
    leave(1);
    another_dies(9, 18);
    comes_again();
    now = hears_epoch(1);
    assert_true(now.number == 9 && now.from == 1 && hears_word(1, HOST_PLACE).slot == 19);
    assert_int_equal(finish(), 128 + SIGTERM);
}

TESTS(unit_test(test_the_job_begins_when_all_are_here), unit_test(test_what_is_passed_on),
      unit_test(test_whole_is_what_all_have_said), unit_test(test_a_host_that_is_lost_is_one_epoch),
      unit_test(test_before_the_shape_is_known),
      unit_test(test_who_says_what_it_may_not_is_lost), unit_test(test_without_a_sign), unit_test(test_ranks_that_end),
      unit_test(test_who_leaves), unit_test(test_two_that_have_lost_each_other), unit_test(test_when_all_is_done),
      unit_test(test_chaos), unit_test(test_in_place_of_the_dead),
      unit_test(test_epochs_of_who_comes_again))
