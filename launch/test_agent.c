/* ranks: 1  device: cpu */
/* The agent, with shells as ranks. Shells never mark themselves as finished, so every end is a failure. */
#include "launch/agent.h"
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

TESTS(unit_test(test_the_first_that_fails_ends_the_others), unit_test(test_who_does_not_end_is_killed),
      unit_test(test_signals_are_passed_on), unit_test(test_who_is_left_goes_on),
      unit_test(test_the_dead_are_started_again), unit_test(test_what_cannot_start))
