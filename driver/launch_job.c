/* mpirun as a child process: start it, pass its standard error through the filter and our signals on to it, see it end.
 *
 * Signals. mpirun has a process group of its own, so that neither Ctrl-C nor `timeout` reaches it except through here.
 *   TERM       "your time is up": becomes USR1, which mpirun forwards and at which ranks save and leave with code 75
 *   TERM again, INT, HUP: "stop now": mpirun ends the ranks
 *   USR1       forwarded: the same request as TERM, from whoever knows it by that name
 * Should launch itself be killed outright, the kernel sends mpirun a TERM (Linux): no rank is ever left behind. */
#include "driver/launch.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { READ_END, WRITE_END };
enum { IDLE_MS = 250 }; /* nobody else writes into the middle of one of mpirun's messages for that long */

/* Two TERMs within a second are one request: timeout(1) sends one to its child and one to its child's group. */
static const double one_request_s = 1;
/* mpirun loses a request that comes before its ranks exist, so one this early is repeated; to ranks it is a flag. */
static const double starting_s = 10;

struct job {
    pid_t mpirun;
    int stderr_fd; /* what mpirun and the ranks write there; -1 after the last of them has closed it */
    double started_s, term_s /* first TERM; 0: none */, asked_s /* last USR1 sent for it */;
    struct launch_filter *filter;
    char line[8192];
    size_t line_bytes;
};

/* ---- signals ---- */

static void ask_to_checkpoint(struct job *job) {
    job->asked_s = clock_s();
    kill(job->mpirun, SIGUSR1);
}

static void on_signal(struct job *job, int number, struct launch_end *end) {
    if (number == SIGCHLD) return; /* it woke the loop, which looks */
    end->asked = true;
    if (number != SIGUSR1) end->stop_signal = number;
    if (number != SIGTERM) {
        kill(job->mpirun, number);
    } else if (job->term_s == 0) {
        job->term_s = clock_s();
        ask_to_checkpoint(job);
    } else if (clock_s() > job->term_s + one_request_s) {
        kill(job->mpirun, SIGTERM);
    }
}

static void read_signals(struct job *job, struct launch_end *end) {
    for (int number; (number = launch_next_signal()) != 0;) on_signal(job, number, end);
}

static void repeat_early_request(struct job *job) {
    double now = clock_s();
    bool early = job->term_s > 0 && job->term_s < job->started_s + starting_s;
    if (early && now < job->started_s + starting_s && now > job->asked_s + one_request_s) ask_to_checkpoint(job);
}

/* ---- standard error ---- */

static void show(const char *text) {
    for (size_t left = strlen(text); left > 0;) {
        ssize_t n = write(STDERR_FILENO, text, left);
        if (n < 0 && errno != EINTR) return; /* closed: nobody reads it */
        if (n < 0) continue;
        text += n;
        left -= (size_t)n;
    }
}

static void end_line(struct job *job) {
    job->line[job->line_bytes] = 0;
    enum launch_verdict verdict = launch_filter_line(job->filter, job->line);
    if (verdict == LINE_PASS_HELD) show(job->filter->held);
    if (verdict == LINE_PASS || verdict == LINE_PASS_HELD) show(job->line);
    job->line_bytes = 0;
}

/* A carriage return ends a line as well: progress that rewrites its own line is shown as it comes. */
static void take_text(struct job *job, const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (text[i] == 0) continue; /* would hide the rest of its line */
        job->line[job->line_bytes++] = text[i];
        if (text[i] == '\n' || text[i] == '\r' || job->line_bytes == sizeof job->line - 1) end_line(job);
    }
}

/* @return whether there was anything */
static bool read_text(struct job *job) {
    char text[4096];
    ssize_t n = read(job->stderr_fd, text, sizeof text);
    if (n > 0) take_text(job, text, (size_t)n);
    if (n == 0) {
        close(job->stderr_fd);
        job->stderr_fd = -1;
    }
    return n > 0;
}

static void finish_text(struct job *job) {
    while (job->stderr_fd >= 0 && read_text(job)) continue;
    if (job->line_bytes > 0) end_line(job);
    show(launch_filter_end(job->filter));
    if (job->stderr_fd >= 0) close(job->stderr_fd);
}

/* ---- the process ---- */

/* In the child. Ranks read no standard input: a shell loop's own input must not vanish into them. */
static void become_mpirun(char *const *words, const int text[2], int failure_fd, pid_t parent) {
    setpgid(0, 0);
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGTERM);
#endif
    if (getppid() != parent) _exit(1); /* it died before that */
    signal(SIGUSR1, SIG_IGN);          /* before mpirun handles it and after: a request must not kill it. Ranks start afresh */
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(text[WRITE_END], STDERR_FILENO);
    execvp(words[0], words);
    int reason = errno;
    if (write(failure_fd, &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
}

/* The failure pipe closes by itself when execvp succeeds, and brings errno when it does not. */
static enum status start(struct job *job, char *const *words) {
    int text[2], failure[2], reason = 0;
    TRY(launch_pipe(text));
    TRY(launch_pipe(failure));
    pid_t parent = getpid();
    job->mpirun = fork();
    if (job->mpirun == 0) become_mpirun(words, text, failure[WRITE_END], parent);
    if (job->mpirun < 0)
        return FAIL(E_IO, "cannot start a process: %s; close other programs or raise `ulimit -u`", strerror(errno));
    close(text[WRITE_END]);
    close(failure[WRITE_END]);
    ssize_t n = read(failure[READ_END], &reason, sizeof reason);
    close(failure[READ_END]);
    job->stderr_fd = text[READ_END];
    fcntl(job->stderr_fd, F_SETFL, O_NONBLOCK);
    if (n != sizeof reason) return OK;
    waitpid(job->mpirun, NULL, 0);
    close(job->stderr_fd);
    return FAIL(E_CONFIG, "cannot run %s: %s; install Open MPI: tools/install-deps", words[0], strerror(reason));
}

static bool has_ended(struct job *job, struct launch_end *end) {
    int status;
    if (waitpid(job->mpirun, &status, WNOHANG) != job->mpirun) return false;
    end->killed = WIFSIGNALED(status);
    end->code = end->killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

enum status launch_job(char *const *words, struct launch_filter *filter, struct launch_end *end) {
    struct job job = {.filter = filter, .stderr_fd = -1, .started_s = clock_s()};
    *end = (struct launch_end){0};
    enum status status = start(&job, words);
    while (status == OK && !has_ended(&job, end)) {
        struct pollfd wanted[2] = {{launch_signal_fd(), POLLIN, 0}, {job.stderr_fd, POLLIN, 0}};
        if (poll(wanted, 2, IDLE_MS) == 0) show(launch_filter_end(filter));
        read_signals(&job, end);
        if (job.stderr_fd >= 0 && wanted[1].revents) read_text(&job);
        repeat_early_request(&job);
    }
    if (status != OK) return status;
    status = launch_end_remains(end->code != 0);
    finish_text(&job);
    return status;
}
