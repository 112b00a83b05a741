/* mpirun as a child process: starts it, passes on its text and launch's signals, and waits for its end.
 *
 * Signals. mpirun has its own process group, so that Ctrl-C and `timeout` reach it only through launch.
 *   TERM, USR1       "your time is up": mpirun gets USR1 and forwards it; ranks save and exit with code 75
 *   TERM again, INT, HUP, QUIT, or standard output has no reader any more
 *                    "stop now": mpirun gets TERM and ends the ranks. Processes that are left after 10 s, or at a
 *                    second "stop now", are killed
 * If launch itself is killed, the kernel sends TERM to mpirun (Linux). The guard, a process that waits only for
 * launch's end, kills the job's remaining processes after 10 s, so that no rank outlives the job. */
#include "launch/launch.h"
#include "lib/base/clock.h"
#include "lib/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READ_END, WRITE_END };

/* The same signal twice within a second is one request: timeout(1) signals both its child and its group. */
static const double one_request_s = 1;
/* mpirun loses a request that comes before its ranks exist, so an early request is repeated. Repeats do no harm. */
static const double starting_s = 10;
static const double ends_s = 10; /* mpirun normally needs a second or two */

struct job {
    pid_t mpirun;  /* 0: ended */
    pid_t guard;
    int alive;     /* the guard's pipe, which closes when launch ends */
    int number;    /* the last signal; number_s: its time */
    double number_s;
    double started_s, term_s /* first TERM; 0: none */, asked_s /* last USR1 sent because of TERM */;
    double stop_s; /* time of "stop now"; 0: none */
    struct launch_text text;
    bool gives_up; /* skip the rest of the text after mpirun's end */
};

/* ---- signals ---- */

static void ask_to_checkpoint(struct job *job) {
    job->asked_s = clock_s();
    kill(job->mpirun, SIGUSR1);
    kill(job->mpirun, SIGCONT); /* a stopped mpirun forwards nothing */
}

static void force(struct job *job, struct launch_end *end) {
    end->forced = true;
    kill(job->mpirun, SIGKILL);
}

static void stop_now(struct job *job, struct launch_end *end) {
    if (job->stop_s > 0) {
        force(job, end);
        return;
    }
    job->stop_s = clock_s();
    kill(job->mpirun, SIGTERM);
    kill(job->mpirun, SIGCONT);
}

static bool is_repeated(struct job *job, int number) {
    double now = clock_s(), before = job->number_s;
    bool same = job->number == number && now < before + one_request_s;
    job->number = number;
    if (!same) job->number_s = now;
    return same;
}

static void on_signal(struct job *job, int number, struct launch_end *end) {
    if (number == SIGCHLD) return; /* has_ended handles it */
    end->asked = true;
    if (number != SIGUSR1) end->stop_signal = number;
    if (job->mpirun == 0) {
        job->gives_up = true;
    } else if (number == SIGUSR1) {
        kill(job->mpirun, SIGUSR1);
    } else if (!is_repeated(job, number)) {
        bool first_term = number == SIGTERM && job->term_s == 0 && job->stop_s == 0;
        if (first_term) job->term_s = clock_s();
        if (first_term) ask_to_checkpoint(job);
        else stop_now(job, end);
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

static void look_at_clock(struct job *job, struct launch_end *end) {
    end->reader_left = job->text.lost == EPIPE;
    if (end->reader_left && job->stop_s == 0) stop_now(job, end);
    if (job->stop_s > 0 && clock_s() > job->stop_s + ends_s) force(job, end);
    repeat_early_request(job);
}

/* ---- the guard ---- */

static void guard(int alive) {
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1};
    enum { MOST_FD = 256 };
    char byte;
    setsid(); /* so that signals to the terminal's group do not reach the guard */
    prctl(PR_SET_NAME, "trivium-guard"); /* ps shows this name; pkill by the program's name does not match it */
    for (size_t k = 0; k < sizeof ignored / sizeof *ignored; k++) signal(ignored[k], SIG_IGN);
    for (int fd = 0; fd < MOST_FD; fd++)
        if (fd != alive) close(fd); /* so that a reader of launch's output does not wait for the guard */
    while (read(alive, &byte, 1) < 0 && errno == EINTR) continue;
    launch_end_remains(ends_s);
    launch_scratch_remove();
    launch_flight(false);
    _exit(0);
}

static enum status start_guard(struct job *job) {
    int alive[2];
    TRY(launch_pipe(alive));
    job->guard = fork();
    if (job->guard == 0) {
        close(alive[WRITE_END]);
        guard(alive[READ_END]);
    }
    close(alive[READ_END]);
    job->alive = alive[WRITE_END];
    if (job->guard > 0) return OK;
    return FAIL(E_IO, "cannot start a process: %s; close other programs or raise `ulimit -u`", strerror(errno));
}

static void end_guard(struct job *job) {
    if (job->guard > 0) {
        kill(job->guard, SIGKILL);
        waitpid(job->guard, NULL, 0);
    }
    close(job->alive);
}

/* ---- the process ---- */

/* In the child. Standard input is /dev/null, so that ranks do not consume the input of a shell's loop. */
static void become_mpirun(char *const *words, int out_fd, int err_fd, int failure_fd, pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1); /* launch died before prctl */
    signal(SIGUSR1, SIG_IGN);          /* a request must not kill mpirun before it has a handler; stop.c resets this */
    signal(SIGPIPE, SIG_DFL);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    program_run(words);
    int reason = errno;
    if (write(failure_fd, &reason, sizeof reason) < 0) _exit(126);
    _exit(127);
}

/* The failure pipe closes when execvp succeeds, and carries errno when it fails. */
static enum status start(struct job *job, char *const *words, struct launch_filter *filter) {
    int out[2], err[2], failure[2], reason = 0;
    TRY(start_guard(job));
    TRY(launch_pipe(out));
    TRY(launch_pipe(err));
    TRY(launch_pipe(failure));
    pid_t parent = getpid();
    job->mpirun = fork();
    if (job->mpirun == 0) become_mpirun(words, out[WRITE_END], err[WRITE_END], failure[WRITE_END], parent);
    if (job->mpirun < 0)
        return FAIL(E_IO, "cannot start a process: %s; close other programs or raise `ulimit -u`", strerror(errno));
    close(out[WRITE_END]);
    close(err[WRITE_END]);
    close(failure[WRITE_END]);
    ssize_t n = read(failure[READ_END], &reason, sizeof reason);
    close(failure[READ_END]);
    launch_text_init(&job->text, filter, out[READ_END], err[READ_END]);
    if (n != sizeof reason) return OK;
    waitpid(job->mpirun, NULL, 0);
    launch_text_finish(&job->text);
    return FAIL(E_CONFIG, "cannot run %s: %s; install Open MPI: tools/install-deps", words[0], strerror(reason));
}

static bool has_ended(struct job *job, struct launch_end *end) {
    int status;
    if (waitpid(job->mpirun, &status, WNOHANG) != job->mpirun) return false;
    job->mpirun = 0;
    end->killed = WIFSIGNALED(status);
    end->code = end->killed ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return true;
}

/* Pass on the text that is left in the pipes after all its writers have ended. */
static void pass_the_rest(struct job *job, struct launch_end *end) {
    while (!job->gives_up && launch_text_is_open(&job->text) && launch_text_turn(&job->text)) read_signals(job, end);
    end->reader_left = job->text.lost == EPIPE;
    end->text_lost = job->text.lost;
    launch_text_finish(&job->text);
}

enum status launch_job(char *const *words, struct launch_filter *filter, struct launch_end *end) {
    struct job job = {.started_s = clock_s(), .alive = -1};
    *end = (struct launch_end){0};
    launch_scratch_make();
    enum status status = start(&job, words, filter);
    while (status == OK && !has_ended(&job, end)) {
        launch_text_turn(&job.text);
        read_signals(&job, end);
        look_at_clock(&job, end);
    }
    if (status == OK) {
        status = launch_end_remains(end->code != 0 ? 0 : LAUNCH_LEAVES_S);
        pass_the_rest(&job, end);
    }
    launch_scratch_remove();
    end_guard(&job);
    return status;
}
