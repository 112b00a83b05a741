/* trivium launch: from the request to mpirun's words and settings, and from mpirun's end to one line and an exit
 * code. */
#include "driver/launch/launch.h"

#include "driver/limits.h"
#include "driver/stop.h"
#include "lib/base/clock.h"
#include "lib/base/cores.h"
#include "lib/base/log.h"
#include "lib/base/option.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char help[] =
    "trivium launch -n N [--host LIST | --hostfile FILE] COMMAND args...\n"
    "\n"
    "Runs `trivium COMMAND args...` as N ranks under Open MPI's mpirun and waits for them.\n"
    "\n"
    "  -n N             number of ranks; they may outnumber the cores\n"
    "  --host LIST      hosts to run on, host:ranks separated by commas (default: this one)\n"
    "  --hostfile FILE  the same from a file, one `host slots=ranks` per line\n"
    "  --comm-transport mpi|own\n"
    "                   who starts ranks and carries their messages: Open MPI's mpirun (default), or launch itself: "
    "no MPI takes\n                   part, on this host only. TRIVIUM_COMM_TRANSPORT=own in the environment says the "
    "same\n"
    "  --nodes N        own: as if the ranks were on N hosts: TCP between them, on this one (default: 1)\n"
    "  --elastic MIN    own: when a rank is killed, the others go on in a new epoch, if they are at least MIN "
    "(default: the job ends)\n"
    "  --spares N       --elastic: N idle processes more, which take the places of dead ranks (default: 0)\n"
    "  --hang-timeout S own: a rank that does not move for S seconds, stopped or stuck, is killed (default: 60 with "
    "--elastic,\n                   else none is)\n"
    "  --chaos SEED     --elastic, to see whether it holds: ranks are killed, stopped and slowed at random moments, as "
    "long as\n                   enough are left; at the end launch says what that cost\n"
    "  --chaos-every S  the mean time between two such acts (default: 2)\n"
    "\n"
    "For `train --save DIR`: what to do when the job dies (a rank killed, failing or stuck, or mpirun itself).\n"
    "  --max-restarts N start it again from the last checkpoint, at most N times (default: 0). Not after a bad "
    "request, a loss\n"
    "                   that is not finite, a checkpoint that was asked for (code 75) or a signal to launch; and no "
    "longer after two\n                   restarts in a row without a new checkpoint\n"
    "  --backoff S      wait S seconds before the first restart, twice as long before each next one, at most 60 "
    "(default: 1)\n"
    "  --min-ranks M    after an attempt without a new checkpoint use fewer ranks, but at least M: the next smaller dp "
    "that divides\n                   the batch. Never more again (default: always N)\n\n"
    "SIGTERM asks train for a checkpoint (code 75); a second one and Ctrl-C end the ranks, after 10 s\n"
    "or at the next one by force.\n"
    "trivium launch -n N preflight looks at hosts, network and disk before a long job.\n"
    "Settings of Open MPI (OMPI_MCA_...) and OMP_NUM_THREADS are respected where they are set.\n"
    "Exit code: 0 done, 1 failed, 2 bad request, 75 checkpointed, to be resumed, 130 interrupted, 141 no reader (| "
    "head).\n";

enum { MOST_RANKS = 65536 };

/* ---- the request ---- */

static enum status parse_count(const char *name, const char *text, int least, int *count) {
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (*end || end == text) return FAIL(E_USAGE, "%s %s is not a number; use %s 8, for instance", name, text, name);
    if (errno || n < least || n > MOST_RANKS)
        return FAIL(E_USAGE, "%s %s is out of range; use %d to %d", name, text, least, MOST_RANKS);
    *count = (int)n;
    return OK;
}

static enum status parse_seconds(const char *name, const char *text, int most, double *seconds) {
    char *end;
    double s = strtod(text, &end);
    if (*end || end == text || !(s >= 0 && s <= most))
        return FAIL(E_USAGE, "%s %s is no number of seconds from 0 to %d", name, text, most);
    *seconds = s;
    return OK;
}

/* ---- the options ---- */
static enum status take_ranks(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 1, &r->n_ranks);
}
static enum status take_host(struct launch_request *r, const char *name, const char *value) {
    return (void)name, r->host = value, OK;
}
static enum status take_hostfile(struct launch_request *r, const char *name, const char *value) {
    if (access(value, R_OK) != 0)
        return FAIL(E_USAGE, "cannot read %s %s: %s; give a file of lines `host slots=ranks`", name, value,
                    strerror(errno));
    r->hostfile = value;
    return OK;
}
static enum status take_transport(struct launch_request *r, const char *name, const char *value) {
    r->own = strcmp(value, "own") == 0;
    if (r->own || strcmp(value, "mpi") == 0) return OK;
    return FAIL(E_USAGE, "%s %s is neither mpi nor own", name, value);
}
static enum status take_nodes(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 1, &r->nodes);
}
static enum status take_spares(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 0, &r->spares);
}
static enum status take_elastic(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 1, &r->elastic);
}
static enum status take_hang(struct launch_request *r, const char *name, const char *value) {
    return parse_seconds(name, value, LAUNCH_MOST_HANG_S, &r->hang_s);
}
static enum status take_chaos(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 1, &r->chaos);
}
static enum status take_chaos_every(struct launch_request *r, const char *name, const char *value) {
    return parse_seconds(name, value, LAUNCH_MOST_HANG_S, &r->chaos_s);
}
static enum status take_restarts(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 0, &r->max_restarts);
}
static enum status take_min_ranks(struct launch_request *r, const char *name, const char *value) {
    return parse_count(name, value, 1, &r->min_ranks);
}
static enum status take_backoff(struct launch_request *r, const char *name, const char *value) {
    return parse_seconds(name, value, LAUNCH_MOST_BACKOFF_S, &r->backoff_s);
}

static const struct launch_option { const char *name; enum status (*take)(struct launch_request *, const char *name,
                                                                          const char *value); } LAUNCH_OPTIONS[] = {
    {"-n", take_ranks}, {"--host", take_host}, {"--hostfile", take_hostfile},
    {"--comm-transport", take_transport}, {"--nodes", take_nodes}, {"--spares", take_spares},
    {"--elastic", take_elastic},
    {"--hang-timeout", take_hang}, {"--chaos", take_chaos}, {"--chaos-every", take_chaos_every},
    {"--max-restarts", take_restarts}, {"--min-ranks", take_min_ranks}, {"--backoff", take_backoff}};
enum { N_LAUNCH_OPTIONS = sizeof LAUNCH_OPTIONS / sizeof *LAUNCH_OPTIONS };

static enum status parse_option(struct launch_request *request, const char *name, const char *value) {
    int i = 0;
    while (i < N_LAUNCH_OPTIONS && strcmp(name, LAUNCH_OPTIONS[i].name) != 0) i++;
    if (i == N_LAUNCH_OPTIONS)
        return FAIL(E_USAGE,
                    "launch has no option %s; it knows -n, --host, --hostfile, --comm-transport, "
                    "--nodes, --spares, --elastic, --hang-timeout, --chaos, --chaos-every, --max-restarts, "
                    "--min-ranks and --backoff, and the command's own options come after the command",
                    name);
    if (!value || !*value) return FAIL(E_USAGE, "%s needs a value; see trivium launch --help", name);
    return LAUNCH_OPTIONS[i].take(request, name, value);
}

static bool is_one_host(const struct launch_request *request) {
    const char *slurm_nodes = getenv("SLURM_JOB_NUM_NODES"); /* mpirun uses all of an allocation */
    return !request->host && !request->hostfile && (!slurm_nodes || atoi(slurm_nodes) <= 1);
}

/* What only launch's own transport can do. */
static enum status check_own(struct launch_request *r) {
    if ((r->spares || r->elastic) && !r->own)
        return FAIL(E_USAGE, "--spares %d and --elastic %d are for jobs whose ranks may die, and MPI ends such a job; "
                    "give --comm-transport own, too", r->spares, r->elastic);
    if (r->nodes > 1 && !r->own)
        return FAIL(E_USAGE, "--nodes %d emulates hosts for --comm-transport own; give that, too, or use train's "
                    "--ranks-per-node", r->nodes);
    if (r->nodes > r->n_ranks)
        return FAIL(E_USAGE, "--nodes %d are more than -n %d; use at most %d", r->nodes, r->n_ranks, r->n_ranks);
    if (r->hang_s > 0 && !r->own)
        return FAIL(E_USAGE, "--hang-timeout %g looks at the ranks of --comm-transport own; give that, too, or use "
                    "train's --comm-timeout", r->hang_s);
    if ((r->spares || r->chaos) && !r->elastic)
        return FAIL(E_USAGE, "%s %d is for jobs that go on when a rank dies; give --elastic %d, too",
                    r->spares ? "--spares" : "--chaos", r->spares ? r->spares : r->chaos, r->n_ranks);
    if (r->elastic > r->n_ranks)
        return FAIL(E_USAGE, "--elastic %d is more than -n %d; use at most %d", r->elastic, r->n_ranks, r->n_ranks);
    if (r->own && !is_one_host(r))
        return FAIL(E_USAGE, "--comm-transport own starts ranks on this host only; leave out --host and --hostfile, "
                    "and ask Slurm for one node");
    if (r->hang_s < 0) r->hang_s = r->elastic ? 60 : 0;
    return OK;
}

enum status launch_parse(int argc, char **argv, struct launch_request *out) {
    const char *transport = getenv("TRIVIUM_COMM_TRANSPORT");
    *out = (struct launch_request){.backoff_s = 1, .hang_s = -1, .chaos_s = 2};
    if (transport && *transport) TRY(take_transport(out, "TRIVIUM_COMM_TRANSPORT", transport));
    int i = 0;
    for (; i < argc && argv[i][0] == '-'; i += 2) {
        if (options_ask_for_help(1, argv + i)) {
            out->help = true;
            return OK;
        }
        TRY(parse_option(out, argv[i], i + 1 < argc ? argv[i + 1] : NULL));
    }
    if (out->n_ranks == 0) return FAIL(E_USAGE, "launch needs the number of ranks; use trivium launch -n 8 train ...");
    if (out->host && out->hostfile) return FAIL(E_USAGE, "--host and --hostfile both name the hosts; use one of them");
    TRY(check_own(out));
    if (out->min_ranks > out->n_ranks)
        return FAIL(E_USAGE, "--min-ranks %d is more than -n %d; use at most %d", out->min_ranks, out->n_ranks,
                    out->n_ranks);
    if (out->min_ranks && !out->max_restarts)
        return FAIL(E_USAGE, "--min-ranks %d is for restarts, and there are none; give --max-restarts too",
                    out->min_ranks);
    if (i >= argc) return FAIL(E_USAGE, "launch needs a command; use trivium launch -n %d train ...", out->n_ranks);
    out->options = argv;
    out->n_options = i;
    out->command = argv + i;
    out->n_words = argc - i;
    return OK;
}

static int add_words(const char **words, int n, const char *const *more, int n_more) {
    memcpy(words + n, more, (size_t)n_more * sizeof *words);
    return n + n_more;
}

enum status launch_words(const struct launch_request *request, const char *self, const char *program,
                         const char *ranks_text, char ***out) {
    const char *mpirun[] = {"mpirun", "--oversubscribe", "--bind-to", "none", "-n", ranks_text};
    const char *agent[] = {self, "agent"};
    const char *host[] = {request->host ? "--host" : "--hostfile", request->host ? request->host : request->hostfile};
    const char *threads[] = {"-x", "OMP_NUM_THREADS"}, *ranks[] = {"-n", ranks_text};
    enum { MOST_OURS = 16 };
    const char **words = calloc((size_t)(MOST_OURS + request->n_options + request->n_words), sizeof *words);
    bool elsewhere = request->host || request->hostfile;
    int n = 0;
    *out = (char **)words; /* execvp promises not to write to them, its type does not say so */
    if (!words)
        return FAIL(E_MEMORY, "no memory for a command line of %d words; close other programs", request->n_words);
    if (request->own) {
        n = add_words(words, n, agent, 2);
        n = add_words(words, n, (const char *const *)request->options, request->n_options);
        n = add_words(words, n, ranks, 2); /* fewer than at first, perhaps */
    } else {
        n = add_words(words, n, mpirun, sizeof mpirun / sizeof *mpirun);
        if (elsewhere) n = add_words(words, n, host, 2);
        /* mpirun takes its own settings to other hosts, all else by name */
        if (elsewhere && getenv("OMP_NUM_THREADS")) n = add_words(words, n, threads, 2);
    }
    words[n++] = program;
    add_words(words, n, (const char *const *)request->command, request->n_words);
    return OK;
}

/* ---- the environment; whatever the user has set stays ---- */

static void set_threads(int n_ranks) {
    char text[16];
    int threads = (int)cores_allowed() / n_ranks;
    snprintf(text, sizeof text, "%d", threads > 1 ? threads : 1);
    setenv("OMP_NUM_THREADS", text, 0);
}

static void set_environment(const struct launch_request *request) {
    /* To Open MPI two ranks on two cores are not oversubscribed, so it spins; unbound, they are in each other's way. */
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    /* mpirun gives its ranks a terminal of their own, whatever their text goes to */
    setenv("TRIVIUM_TERMINAL", isatty(STDOUT_FILENO) ? "1" : "0", 1);
    setenv("OMPI_MCA_mca_base_component_show_load_errors", "0", 0); /* no complaints about absent network cards */
    setenv("OMPI_MCA_btl_base_warn_component_unused", "0", 0);
    if (geteuid() == 0) { /* containers */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    }
    if (!is_one_host(request)) return; /* the network's own transport; each host divides its own cores */
    setenv("OMPI_MCA_pml", "ob1", 0);
    setenv("OMPI_MCA_btl", "self,vader", 0); /* shared memory only */
    launch_scratch_name();
    set_threads(request->n_ranks);
}

/** This program's own path. */
static enum status find_self(char path[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
    if (n < 0) return FAIL(E_IO, "cannot read /proc/self/exe: %s", strerror(errno));
    path[n] = 0;
    return OK;
}

/* ---- the end ---- */

static const char *signal_remedy(int number) {
    switch (number) {
    case SIGKILL:
        return "most likely the out-of-memory killer: see `dmesg` and `trivium show memory`; start it again";
    case SIGXCPU: return "`ulimit -t` is used up; raise it, and start it again";
    case SIGUSR1: return "it was asked to stop; start it again";
    case SIGILL: return "the program was built for another processor; make clean, then build it here";
    case SIGBUS:
        return "a file that it reads was shortened or cannot be read any more (data, tokenizer), or /dev/shm is full; "
               "if neither, it is a defect in Trivium: report it";
    case SIGABRT: case SIGFPE: case SIGSEGV:
        return "a defect in Trivium; build with `make DEBUG=1 SAN=1`, which shows where, and report it";
    default: return "find out who sends it, and start it again";
    }
}

/* Who starts the ranks. */
static const char *starter(const struct launch_request *r) { return r->own ? "the agent" : "mpirun"; }

/* A crash of mpirun is none of Trivium. */
static const char *starter_remedy(const struct launch_request *r, int number) {
    bool crash = number == SIGABRT || number == SIGBUS || number == SIGFPE || number == SIGILL || number == SIGSEGV;
    return crash && !r->own ? "it crashed: see what it says above and its version (mpirun --version); start it again"
                            : signal_remedy(number);
}

/* Why a job failed that did not say so itself. */
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
    if (facts->rank >= 0)
        return FAIL(E_COMM, "rank %d of %d ended with code %d and gave no reason; run again with --log debug",
                    facts->rank, request->n_ranks, facts->exit_code);
    if (end->code > 128) /* mpirun's notice of it can get lost when a rank dies at once */
        return FAIL(E_COMM, "a rank was killed by signal %d (%s); %s", end->code - 128, strsignal(end->code - 128),
                    signal_remedy(end->code - 128));
    return FAIL(E_COMM, "%s ended with code %d and names no rank that failed: it was sent a signal (those are for "
                "launch), or could not continue; see what is above, and start it again", starter(request), end->code);
}

static void conclude(const struct launch_request *request, struct launch_outcome *o) {
    const struct launch_facts *facts = &o->facts;
    o->code = o->end.code;
    if (o->end.text_lost && o->end.text_lost != EBADF && !o->end.reader_left) /* closed: as its user wants it */
        log_warn("not all of the standard output could be written: %s; send it where there is room",
                 strerror(o->end.text_lost));
    if (o->code == 0 || o->code == EXIT_CHECKPOINTED) return;
    if (o->end.reader_left) {
        o->code = EXIT_READER_LEFT;
        return;
    }
    if (o->end.stop_signal == SIGINT) {
        o->code = EXIT_INTERRUPTED;
        fprintf(stderr, INTERRUPTED "%s%s%s\n", o->end.forced ? "; " : "", o->end.forced ? starter(request) : "",
                o->end.forced ? " did not end by itself and was killed" : "");
        return;
    }
    o->code = o->code == 2 && facts->signal == 0 ? 2 : 1; /* 137 and the like are mpirun's way to say "killed" */
    if (!facts->error_seen) explain(request, facts, &o->end);
    snprintf(o->line, sizeof o->line, "%s", facts->error_seen ? facts->error : status_text());
    status_report();
}

enum status launch_attempt(const struct launch_request *request, struct launch_outcome *out) {
    char self[PATH_MAX], ranks_text[16], **words;
    const char *other = getenv("TRIVIUM_EXE");              /* for tests */
    struct launch_filter filter;
    double start = clock_s();
    *out = (struct launch_outcome){0};
    TRY(find_self(self));
    snprintf(ranks_text, sizeof ranks_text, "%d", request->n_ranks);
    TRY(launch_words(request, self, other ? other : self, ranks_text, &words));
    launch_filter_init(&filter);
    enum status status = launch_job(words, &filter, &out->end);
    free(words);
    out->facts = filter.facts;
    out->wall_s = clock_s() - start;
    if (status == OK) conclude(request, out);
    launch_flight(status == OK && out->code == 1);
    return status;
}

static enum status run_job(const struct launch_request *request, launch_supervisor *supervise, int *code) {
    if (!request->own) TRY(limits_look(is_one_host(request) ? request->n_ranks : 0));
    launch_mark();
    set_environment(request);
    TRY(launch_watch_signals());
    struct launch_outcome outcome = {0};
    enum status status = request->max_restarts ? supervise(request, code) : launch_attempt(request, &outcome);
    if (!request->max_restarts) *code = outcome.code;
    launch_unwatch_signals();
    return status;
}

int launch(int argc, char **argv, launch_supervisor *supervise) {
    struct launch_request request;
    int code = 0;
    enum status status = launch_parse(argc, argv, &request);
    if (status == OK && request.help) fputs(help, stdout);
    else if (status == OK) status = run_job(&request, supervise, &code);
    status_report();
    return status == OK ? code : status_exit_code(status);
}
