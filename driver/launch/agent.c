/* Starting ranks, and seeing them end.
 *
 * A rank has ended well if its line of the job's memory says that it has finished (lib/comm/own/job.h), whatever its
 * exit code: 75, for one, means "saved, to be resumed". Any other end is a failure, even with code 0: its peers would
 * wait for it. Then the agent tells launch who it was, sends the others a TERM, and a second later a KILL, which ends
 * those too that are stopped. Should the agent itself be killed, the kernel kills its ranks. */
#include "driver/launch/agent.h"

#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/comm/own/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const double ends_s = 1;              /* after its TERM a rank has so long */

struct agent {
    struct own_job job;                      /* slot: unused */
    struct own_memory *memory;
    pid_t pid[OWN_MOST_RANKS];               /* 0: ended */
    int n_left, code;                        /* code: what the agent ends with */
    double ending_s;                         /* when the ranks got their TERM; 0: they have not */
};

/* ---- start ---- */
static void become_rank(const struct own_job *job, char **words, const sigset_t *unblocked, pid_t agent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent) _exit(1);        /* it died before that */
    own_job_tell(job);
    signal(SIGUSR1, SIG_DFL);
    sigprocmask(SIG_SETMASK, unblocked, NULL);
    execvp(words[0], words);
    fprintf(stderr, "E_CONFIG agent: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(2);
}

static enum status start_ranks(struct agent *a, char **words, const sigset_t *unblocked) {
    pid_t self = getpid();
    for (int r = 0; r < a->job.n_slots; r++) {
        struct own_job job = a->job;
        job.slot = r;
        a->pid[r] = fork();
        if (a->pid[r] == 0) become_rank(&job, words, unblocked, self);
        if (a->pid[r] < 0) {
            a->pid[r] = 0;
            return FAIL(E_IO, "cannot start rank %d of %d: %s; close other programs or raise `ulimit -u`", r,
                        a->job.n_slots, strerror(errno));
        }
        a->n_left++;
    }
    return OK;
}

/* ---- end ---- */
static void signal_all(const struct agent *a, int number) {
    for (int r = 0; r < a->job.n_slots; r++)
        if (a->pid[r]) kill(a->pid[r], number);
}

static void end_all(struct agent *a) {
    if (a->ending_s > 0) return;
    a->ending_s = clock_s();
    signal_all(a, SIGTERM);
}

/* launch reads this (launch_filter.c). */
static void tell(int rank, int status) {
    char host[64];
    comm_host_name(host, sizeof host);
    if (WIFSIGNALED(status))
        fprintf(stderr, "trivium agent: rank %d on host %s was killed by signal %d (%s)\n", rank, host,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else fprintf(stderr, "trivium agent: rank %d on host %s ended with code %d\n", rank, host, WEXITSTATUS(status));
}

static void has_ended(struct agent *a, int rank, int status) {
    bool finished = WIFEXITED(status) && atomic_load(&a->memory->line[rank].state) == OWN_FINISHED;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    a->pid[rank] = 0;
    a->n_left--;
    if (a->ending_s > 0) return;             /* it was told to */
    bool first = a->code == 0 && (code || !finished);
    if (first) a->code = code ? code : 1;
    if (first || !finished) tell(rank, status);
    if (!finished) end_all(a);
}

static void look_for_ends(struct agent *a) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int r = 0; r < a->job.n_slots; r++)
            if (a->pid[r] == pid) has_ended(a, r, status);
}

static void on_signal(struct agent *a, int number) {
    if (number == SIGUSR1) signal_all(a, SIGUSR1);
    if (number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT) {
        if (a->code == 0) a->code = 128 + number;
        end_all(a);
    }
}

static void wait_for_all(struct agent *a, const sigset_t *watched) {
    const struct timespec turn = {0, 100000000};
    for (;;) {
        look_for_ends(a);
        if (a->n_left == 0) return;
        int number = sigtimedwait(watched, NULL, &turn);
        if (number > 0) on_signal(a, number);
        if (a->ending_s > 0 && clock_s() > a->ending_s + ends_s) signal_all(a, SIGKILL);
    }
}

static enum status run(struct agent *a, char **words) {
    static const int signals[] = {SIGCHLD, SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t watched, before;
    sigemptyset(&watched);
    for (size_t k = 0; k < sizeof signals / sizeof *signals; k++) sigaddset(&watched, signals[k]);
    signal(SIGUSR1, SIG_DFL);                /* launch has set it to be ignored, and then nobody would see it */
    sigprocmask(SIG_BLOCK, &watched, &before);
    TRY(own_memory_make(a->job.n_slots, a->job.n_slots, &a->job.fd));
    TRY(own_memory_map(&a->job, &a->memory));
    enum status status = start_ranks(a, words, &before);
    if (status != OK) end_all(a);
    wait_for_all(a, &watched);
    own_memory_unmap(a->memory);
    return status;
}

int agent_main(int argc, char **argv) {
    struct agent agent = {0};
    int n = argc > 1 ? atoi(argv[0]) : 0;
    enum status status = n < 1 ? FAIL(E_USAGE, "agent is what launch runs; use trivium launch") : OK;
    agent.job.n_slots = n;
    if (status == OK) status = run(&agent, argv + 1);
    status_report();
    return status == OK ? agent.code : status_exit_code(status);
}
