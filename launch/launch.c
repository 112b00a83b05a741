/* trivium launch: makes mpirun's command line and environment from the request, one line and a code from its end. */
#include "launch/launch.h"

#include "launch/limits.h"
#include "launch/stop.h"
#include "lib/base/clock.h"
#include "lib/base/cores.h"
#include "lib/base/log.h"
#include "lib/base/program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add_words(const char **words, int n, const char *const *more, int n_more) {
    memcpy(words + n, more, (size_t)n_more * sizeof *words);
    return n + n_more;
}

enum status launch_words(const struct launch_request *request, const char *self, const char *program,
                         const char *ranks_text, char ***out) {
    const char *const mpirun[] = {TRIVIUM_MPIRUN}; /* "mpirun", "--bind-to", ...: of the MPI that this build has */
    const char *agent[] = {self, "agent"};
    const char *host[] = {request->host ? "--host" : "--hostfile", request->host ? request->host : request->hostfile};
    const char *threads[] = {"-x", "OMP_NUM_THREADS"}, *ranks[] = {"-n", ranks_text};
    enum { MOST_OURS = 16 + sizeof mpirun / sizeof *mpirun };
    const char **words = calloc((size_t)(MOST_OURS + request->n_options + request->n_words), sizeof *words);
    bool elsewhere = request->host || request->hostfile;
    int n = 0;
    *out = (char **)words; /* execvp does not write to them, despite its type */
    if (!words)
        return FAIL(E_MEMORY, "no memory for a command line of %d words; close other programs", request->n_words);
    if (request->own) {
        n = add_words(words, n, agent, 2);
        for (int i = 0; i < request->n_options; i += 2)
            if (strncmp(request->options[i], "--host", 6) != 0)
                n = add_words(words, n, (const char *const *)request->options + i, 2);
        if (elsewhere) n = add_words(words, n, host, 2); /* after a restart there may be fewer hosts */
        n = add_words(words, n, ranks, 2); /* the last -n counts: and fewer ranks */
    } else {
        n = add_words(words, n, mpirun, sizeof mpirun / sizeof *mpirun);
        n = add_words(words, n, ranks, 2);
        if (elsewhere) n = add_words(words, n, host, 2);
        /* Open MPI's exports its own variables to other hosts, and others only by name; Hydra (MPICH) exports all */
        if (TRIVIUM_OPEN_MPI && elsewhere && getenv("OMP_NUM_THREADS")) n = add_words(words, n, threads, 2);
    }
    words[n++] = program;
    add_words(words, n, (const char *const *)request->command, request->n_words);
    return OK;
}

/* ---- the environment; variables that the user has set stay ---- */

static void set_threads(int n_ranks) {
    char text[16];
    int threads = (int)cores_allowed() / n_ranks;
    snprintf(text, sizeof text, "%d", threads > 1 ? threads : 1);
    setenv("OMP_NUM_THREADS", text, 0);
}

static void set_environment(const struct launch_request *request) {
    /* Unless ranks outnumber cores, Open MPI spins; ranks that are not bound then compete for a core. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    /* mpirun gives its ranks a pseudo-terminal, even if standard output is a file */
    setenv("TRIVIUM_TERMINAL", isatty(STDOUT_FILENO) ? "1" : "0", 1);
    if (!TRIVIUM_OPEN_MPI && !request->own) setenv("TRIVIUM_LAST_WORD", "1", 1); /* launch_code_of_hydra */
    setenv("OMPI_MCA_mca_base_component_show_load_errors", "0", 0); /* no complaints about absent network cards */
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
    if (geteuid() == 0) { /* as in containers */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    if (!launch_is_one_host(request)) return; /* several hosts use the network, and each divides its own cores */
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", "self,vader", 0); /* shared memory only */
    if (!request->own) launch_scratch_name();
    set_threads(request->n_ranks);
}

/* ---- the end ---- */

static const char *signal_remedy(int number) {
    switch (number) {
    case SIGKILL: return "most likely the out-of-memory killer: see `dmesg` and `trivium show memory`; start it again";
    case SIGXCPU: return "`ulimit -t` is used up; raise it, and start it again";
    case SIGUSR1: return "it was asked to stop; start it again";
    case SIGILL: return "the program was built for another processor; make clean, then build it here";
    case SIGBUS:
        return "a file that it reads was shortened or cannot be read any more (data, tokenizer), or /dev/shm is full; "
               "if neither, it is a defect in Trivium: report it";
    case SIGABRT: case SIGFPE: case SIGSEGV:
        return "a defect in Trivium; build with `make DEBUG=1 SAN=1`, which shows where, and report it";
    default: return "find out what sends it, and start it again";
    }
}

/* The program that starts the ranks, for messages. */
static const char *starter(const struct launch_request *r) { return r->own ? "the agent" : "mpirun"; }

/* A crash of mpirun is not a defect of Trivium. */
static const char *starter_remedy(const struct launch_request *r, int number) {
    bool crash = number == SIGABRT || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGSEGV;
    return crash && !r->own ? "it crashed: see what it says above and its version (mpirun --version); start it again"
                            : signal_remedy(number);
}

/* The error of a job that failed without an E_ line. */
static enum status explain(const struct launch_request *request, const struct launch_facts *facts,
                           const struct launch_end *end) {
    if (facts->signal)
        return FAIL(E_COMM, "rank %d of %d on host %s was killed by signal %d (%s); %s", facts->rank, request->n_ranks,
                    facts->host, facts->signal, *facts->signal_name ? facts->signal_name : strsignal(facts->signal),
                    signal_remedy(facts->signal));
    if (end->stop_signal)
        return FAIL(E_COMM, "stopped by signal %d (%s)%s; start it again", end->stop_signal,
                    strsignal(end->stop_signal),
                    end->forced ? ", and what had started the ranks, which did not end by itself, was killed" : "");
    if (end->killed)
        return FAIL(E_COMM, "%s was killed by signal %d (%s); %s", starter(request), end->code - 128,
                    strsignal(end->code - 128), starter_remedy(request, end->code - 128));
    if (facts->no_shared_memory)
        return FAIL(E_COMM, "Open MPI could not make its shared memory; see that /dev/shm and TMPDIR have room and can "
                    "be written to");
    if (facts->rank >= 0 && facts->exit_code == 0)
        return FAIL(E_COMM, "rank %d of %d ended with code 0 and took no part in the job; if %s is no command of "
                    "several ranks, run it without launch", facts->rank, request->n_ranks, request->command[0]);
    if (facts->rank >= 0 && request->own && strcmp(request->agent_command, "none") == 0)
        return FAIL(E_COMM, "rank %d of %d ended with code %d; the reason is where the agent of host %s writes",
                    facts->rank, request->n_ranks, facts->exit_code, facts->host);
    if (facts->rank >= 0)
        return FAIL(E_COMM, "rank %d of %d ended with code %d and gave no reason; run again with --log debug",
                    facts->rank, request->n_ranks, facts->exit_code);
    if (end->code > 128) /* mpirun may print no message when a rank dies at once */
        return FAIL(E_COMM, "a rank was killed by signal %d (%s); %s", end->code - 128, strsignal(end->code - 128),
                    signal_remedy(end->code - 128));
    if (!TRIVIUM_OPEN_MPI && !request->own && end->code > 3 && end->code < 32) /* Hydra's code: all ranks', or-ed */
        return FAIL(E_COMM, "mpirun ended with code %d: a rank was killed, by signal %d (%s) if by one alone; %s",
                    end->code, end->code, strsignal(end->code), signal_remedy(end->code));
    return FAIL(E_COMM, "%s ended with code %d and names no rank that failed: it was sent a signal (those are for "
                "launch), or could not continue; see what is above, and start it again", starter(request), end->code);
}

static void conclude(const struct launch_request *request, struct launch_outcome *o) {
    const struct launch_facts *facts = &o->facts;
    o->code = o->end.code;
    if (o->end.text_lost && o->end.text_lost != EBADF && !o->end.reader_left) /* EBADF: the user closed it */
        log_warn("not all of the standard output could be written: %s; send it where there is room",
                 strerror(o->end.text_lost));
    if (!TRIVIUM_OPEN_MPI && !request->own && o->end.asked)
        o->code = launch_code_of_hydra(facts, o->code, request->n_ranks);
    if (o->code == 0 || o->code == EXIT_CHECKPOINTED) return;
    if (o->end.reader_left) o->code = EXIT_READER_LEFT;
    if (o->end.reader_left) return;
    if (o->end.stop_signal == SIGINT) {
        o->code = EXIT_INTERRUPTED;
        fprintf(stderr, INTERRUPTED "%s%s%s\n", o->end.forced ? "; " : "", o->end.forced ? starter(request) : "",
                o->end.forced ? " did not end by itself and was killed" : "");
        return;
    }
    o->code = o->code == 2 && facts->signal == 0 ? 2 : 1; /* mpirun's 128 + signal is a failure, too */
    if (!facts->error_seen) explain(request, facts, &o->end);
    snprintf(o->line, sizeof o->line, "%s", facts->error_seen ? facts->error : status_text());
    status_report();
}

enum status launch_attempt(const struct launch_request *request, struct launch_outcome *out) {
    char ranks_text[16], **words;
    const char *self, *other = getenv("TRIVIUM_EXE");       /* for tests */
    struct launch_filter filter;
    double start = clock_s();
    *out = (struct launch_outcome){0};
    TRY(program_path(&self));
    snprintf(ranks_text, sizeof ranks_text, "%d", request->n_ranks);
    TRY(launch_words(request, self, other ? other : self, ranks_text, &words));
    launch_filter_init(&filter);
    enum status status = launch_job(words, &filter, &out->end);
    free(words);
    out->facts = filter.facts;
    out->wall_s = clock_s() - start;
    if (status == OK) conclude(request, out);
    else status_report(); /* before launch_flight, which clears the status */
    launch_flight(status == OK && out->code == 1);
    return status;
}

static enum status run_job(const struct launch_request *request, launch_supervisor *supervise, int *code) {
    if (!request->own) TRY(limits_look(launch_is_one_host(request) ? request->n_ranks : 0));
    launch_mark();
    set_environment(request);
    TRY(launch_watch_signals());
    enum status status = supervise(request, code);
    launch_unwatch_signals();
    return status;
}

int launch(int argc, char **argv, launch_supervisor *supervise) {
    struct launch_request request;
    int code = 0;
    enum status status = launch_parse(argc, argv, &request);
    if (status == OK && request.help) fputs(launch_help, stdout);
    else if (status == OK) status = run_job(&request, supervise, &code);
    status_report();
    return status == OK ? code : status_exit_code(status);
}
