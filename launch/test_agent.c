/* ranks: 1  device: cpu */
/* The agent, with shells as ranks. Shells never mark themselves as finished, so every end is a failure. */
#include "launch/agent.h"
#include "launch/reconnect.h"
#include "lib/base/clock.h"
#include "lib/comm/direct/job.h"
#include "tests/test.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char err[4096];
static double took_s;
static const char *options[12];          /* further options of launch, NULL at the end */

/* Run the agent of n shells in a child process, which gets signal `number` once `file` exists. @return its wait
 * status */
static int run(const char *n, const char *shell, int number, const char *file) {
    int text[2];
    double from_s = clock_s();
    assert_int_equal(pipe(text), 0);
    pid_t pid = fork();
    if (pid == 0) {
        const char *argv[24] = {"--comm-transport", "direct", "-n", n}, *command[] = {"/bin/sh", "-c", shell};
        int argc = 4;
        for (int i = 0; options[i]; i++) argv[argc++] = options[i];
        for (int i = 0; i < 3; i++) argv[argc++] = command[i];
        dup2(text[1], STDERR_FILENO);
        close(text[0]), close(text[1]);
        setvbuf(stderr = fdopen(STDERR_FILENO, "w"), NULL, _IONBF, 0);   /* the test runner has redirected stderr */
        signal(SIGUSR1, SIG_IGN);                /* launch starts the agent so */
        alarm(30);
        _exit(agent_main(argc, (char **)argv));
    }
    close(text[1]);
    struct stat there;
    while (number && stat(file, &there) != 0) usleep(1000);
    if (number) kill(pid, number);
    size_t used = 0;
    for (ssize_t k; (k = read(text[0], err + used, sizeof err - 1 - used)) > 0;) used += (size_t)k;
    err[used] = 0;
    close(text[0]);
    int status;
    waitpid(pid, &status, 0);
    took_s = clock_s() - from_s;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool says(const char *text) { return strstr(err, text) != NULL; }

/* Slot R runs SHELL; the others sleep. */
#define ONLY_RANK(r, what) "case $" OWN_JOB_VARIABLE " in slot=" #r "*) " what ";; *) exec sleep 100;; esac"

/* The rank `slot` is killed; the others end half a second later. */
#define DIES(slot) "case $" OWN_JOB_VARIABLE " in slot=" #slot "*) kill -9 $$;; *) sleep 0.5; exit 4;; esac"

TEST(test_the_first_that_fails_ends_the_others) {
    assert_int_equal(run("3", ONLY_RANK(1, "exit 7"), 0, NULL), 7);
    assert_true(says("trivium agent: rank 1 on host ") && says(" ended with code 7\n"));
    assert_true(took_s < 10);
    assert_int_equal(run("3", ONLY_RANK(2, "exit 0"), 0, NULL), 1);    /* code 0, but not marked as finished */
    assert_true(says("rank 2 on host ") && says(" ended with code 0\n"));
    assert_int_equal(run("2", ONLY_RANK(0, "kill -9 $$"), 0, NULL), 128 + SIGKILL);
    assert_true(says("rank 0 on host ") && says(" was killed by signal 9 (Killed)\n"));
    assert_null(strstr(strstr(err, "agent:") + 1, "agent:"));          /* no line about the others */
}

/* A rank that ignores TERM is killed after a second; a stopped rank ends, too. */
TEST(test_who_does_not_end_is_killed) {
    assert_int_equal(run("2", "trap '' TERM; " ONLY_RANK(1, "sleep 0.3; exit 3"), 0, NULL), 3);
    assert_true(took_s >= 1 && took_s < 10);
    assert_int_equal(run("2", "case $" OWN_JOB_VARIABLE " in slot=1*) sleep 0.3; exit 3;; *) kill -STOP $$;; esac", 0,
                         NULL), 3);
    assert_true(took_s < 10);
}

TEST(test_signals_are_passed_on) {
    char shell[512], file[256];
    snprintf(file, sizeof file, "%s", test_path("ready"));
    /* rank 0 makes the file when both ranks have had time to set their traps; then both wait */
    snprintf(shell, sizeof shell, "trap 'exit 9' USR1; case $" OWN_JOB_VARIABLE " in slot=0*) sleep 0.2; touch %s;; "
             "esac; while :; do sleep 0.05; done", file);
    assert_int_equal(run("2", shell, SIGUSR1, file), 9);
    unlink(file);
    snprintf(shell, sizeof shell, "touch %s; exec sleep 100", file);
    assert_int_equal(run("2", shell, SIGTERM, file), 1);             /* only the agent's TERM ended the ranks */
    assert_string_equal(err, "");
    assert_true(took_s < 10);
}

/* Shells never mark themselves as finished, so each of these jobs fails at last. They do not write the shape of a
 * replica either, so without a spare the job ends. */
TEST(test_who_is_left_goes_on) {
    options[0] = "--elastic", options[1] = "2";
    assert_int_equal(run("3", ONLY_RANK(1, "kill -9 $$"), 0, NULL), 128 + SIGKILL);
    assert_true(!says("epoch 1") && says("2 ranks are left, of which 0 can go on") && says("rank 1 on host "));
    options[2] = "--spares", options[3] = "1";
    assert_int_equal(run("3", DIES(1), 0, NULL), 4);
    assert_true(says("trivium: signal 9 (Killed) has killed rank 1; epoch 1 goes on with 3 ranks\n"));
    assert_true(says("agent: rank ") && says(" ended with code 4"));
    assert_int_equal(run("3", DIES(3), 0, NULL), 4);
    assert_true(says("has killed spare 3; nothing is lost\n") && !says("epoch 1"));
    assert_int_equal(run("3", ONLY_RANK(1, "exit 5"), 0, NULL), 5);                     /* no signal killed it: the
                                                                                         * job ends */
    memset(options, 0, sizeof options);
}

/* Each dead process is replaced by a new spare, up to --respawn: the shells of slots 4 and 5 die, too. */
TEST(test_the_dead_are_started_again) {
    const char *const given[] = {"--elastic", "2", "--spares", "1", "--respawn", "2"};
    memcpy(options, given, sizeof given);
    assert_int_equal(run("3", "case $" OWN_JOB_VARIABLE " in slot=[145]*) kill -9 $$;; *) sleep 1; exit 4;; esac", 0,
                         NULL), 4);
    assert_true(says("has killed rank 1; epoch 1 goes on with 3 ranks\n"));
    assert_true(says("trivium: process 4 is started as a spare; 1 more may be\n"));
    assert_true(says("has killed spare 4; nothing is lost\n"));
    assert_true(says("trivium: process 5 is started as a spare; 0 more may be\n"));
    assert_true(says("has killed spare 5; nothing is lost\n") && !says("process 6"));
    memset(options, 0, sizeof options);
}

TEST(test_what_cannot_start) {
    char *none[] = {"-n", "2"}, *mpi[] = {"-n", "2", "--comm-transport", "mpi", "/bin/true"};
    test_stderr_keep();
    int code = agent_main(2, none), other = agent_main(5, mpi);
    assert_non_null(strstr(test_stderr_text(), "E_USAGE"));
    assert_int_equal(code, 2);
    assert_int_equal(other, 2);
    assert_int_equal(run("300", "exit 0", 0, NULL), 2);
    assert_true(says("E_CONFIG") && says("300") && says("256"));
}

/* Lost connections between two live ranks, and the acts that follow. The job is only a memory, without processes. */

enum { N = 4 };
static struct own_memory memory;
static bool there[N];
static struct reconnect r;
static const struct members view = {.memory = &memory, .n_slots = N, .n_at_first = N, .least = 2, .there = there};

/* Open epoch `number` of slots 0, 1 and 3, which goes back to epoch `from`. */
static void is_now(int number, int from, bool committed) {
    const struct membership e = {.number = number, .from = from, .n = 3, .slot = {0, 1, 3}};
    memory.of[number % OWN_EPOCHS] = e;
    memory.epoch = number;
    for (int i = 0; i < e.n; i++) memory.board[number % OWN_EPOCHS][e.slot[i]].committed = committed;
}
static void begin(void) {
    memset(&memory, 0, sizeof memory);
    r = RECONNECT_NOTHING;
    for (int s = 0; s < N; s++) there[s] = true;
    is_now(5, 4, true);
}
static enum membership_what at(double now_s) { return reconnect_look(&r, &view, now_s).what; }

TEST(test_an_epoch_of_the_same_ranks) {
    begin();
    assert_int_equal(at(10), MEMBERS_STAY);
    memory.line[1].lost = own_slot_word(5, 3);
    assert_int_equal(at(11), MEMBERS_STAY);                          /* slot 3 may have died */
    const struct membership_act act = reconnect_look(&r, &view, 11.2);
    assert_true(act.what == MEMBERS_CHANGE && act.slot == -1 && act.next.number == 6 && act.next.from == 5);
    assert_true(act.next.n == 3 && act.next.slot[2] == 3);
    is_now(5, 4, false);                                             /* epoch 5 is not committed */
    assert_int_equal(reconnect_look(&r, &view, 11.3).next.from, 4);
}

TEST(test_who_has_died_is_not_lost) {
    begin();
    memory.line[1].lost = own_slot_word(5, 3);
    assert_int_equal(at(11), MEMBERS_STAY);
    there[3] = false;
    assert_int_equal(at(11.2), MEMBERS_STAY);
    there[3] = true;
    assert_int_equal(at(12), MEMBERS_STAY);                          /* the wait begins again */
    assert_int_equal(at(12.2), MEMBERS_CHANGE);
}

TEST(test_what_does_not_count) {
    begin();
    memory.line[1].lost = own_slot_word(4, 3);                       /* a loss in another epoch */
    memory.line[2].lost = own_slot_word(5, 0);                       /* a spare has lost a rank */
    memory.line[3].lost = own_slot_word(5, 2);                       /* a rank has lost a spare */
    assert_int_equal(at(11), MEMBERS_STAY);
    assert_int_equal(at(12), MEMBERS_STAY);
    memory.line[1].lost = own_slot_word(5, 3);
    assert_int_equal(at(13), MEMBERS_STAY);
    memory.line[0].lost = own_slot_word(5, 3);                       /* for another pair the wait begins again */
    assert_int_equal(at(13.2), MEMBERS_STAY);
    assert_int_equal(at(13.4), MEMBERS_CHANGE);
}

/* The epoch that was opened after a loss loses a connection, too, before it is committed. The greater slot is killed,
 * once. */
TEST(test_who_cannot_be_reached_is_killed) {
    begin();
    memory.line[3].lost = own_slot_word(5, 1);
    assert_int_equal(at(11), MEMBERS_STAY);
    const struct membership now = own_membership_now(&memory);
    const struct membership_act act = reconnect_look(&r, &view, 11.2);
    test_stderr_keep();
    reconnect_is_open(&r, &now, &act);
    is_now(6, 5, false);
    assert_int_equal(at(12), MEMBERS_STAY);
    memory.line[1].lost = own_slot_word(6, 3);
    assert_int_equal(at(13), MEMBERS_STAY);
    const struct membership_act end = reconnect_look(&r, &view, 13.2);
    const char *text = test_stderr_text();
    assert_non_null(strstr(text, "ranks 2 and 1 have lost each other; epoch 6 goes on with 3 ranks"));
    assert_non_null(strstr(text, "rank 2 cannot be reached by rank 1, and is killed"));
    assert_true(end.what == MEMBERS_END && end.slot == 3);
    assert_int_equal(at(14), MEMBERS_STAY);
    assert_int_equal(at(15), MEMBERS_STAY);                          /* no act until the death is seen */
    is_now(6, 5, true);
    memory.line[0].lost = own_slot_word(6, 1);
    assert_int_equal(at(16), MEMBERS_STAY);
    assert_int_equal(at(17), MEMBERS_CHANGE);                        /* a committed epoch had this connection */
}

TESTS(unit_test(test_the_first_that_fails_ends_the_others), unit_test(test_who_does_not_end_is_killed),
      unit_test(test_signals_are_passed_on), unit_test(test_who_is_left_goes_on),
      unit_test(test_the_dead_are_started_again), unit_test(test_what_cannot_start),
      unit_test(test_an_epoch_of_the_same_ranks), unit_test(test_who_has_died_is_not_lost),
      unit_test(test_what_does_not_count), unit_test(test_who_cannot_be_reached_is_killed))
