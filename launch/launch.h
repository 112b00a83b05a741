/* `trivium launch`: start the ranks of a job on this host or on several, and keep their output readable.
 *
 *   trivium launch -n 8 [--host LIST | --hostfile FILE] COMMAND args...
 *
 * forks Open MPI's `mpirun`, which runs this same program with `COMMAND args...` as each rank, and waits. Ranks'
 * standard output passes through untouched; when its reader leaves, the job ends. Standard error is read line by line,
 * because a failing job prints much and only the first error matters. The first E_ line is printed; later E_ lines and
 * mpirun's remarks on them are dropped. With --max-restarts a job that dies is started again from its last checkpoint
 * (launch_restart.h).
 *
 * Exit code: 0 done, 1 a rank failed, was killed or never started, 2 bad request, 75 checkpointed and to be resumed,
 * 130 interrupted (Ctrl-C), 141 the reader of standard output left (`| head`). */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    EXIT_CHECKPOINTED = 75,       /* EX_TEMPFAIL of sysexits.h: "try again" */
    EXIT_READER_LEFT = 128 + 13,  /* the shell's code of any program that SIGPIPE ends */
    LAUNCH_MOST_BACKOFF_S = 60,
    LAUNCH_MOST_HANG_S = 86400
};

struct launch_request;

/** Makes the attempts: one, or several with --max-restarts. *code: the exit code of launch. Signals are watched
 *  meanwhile. @errors the supervisor's own, and those of launch_attempt */
typedef enum status launch_supervisor(const struct launch_request *, int *code);

/** Run `trivium launch`. argv[0..argc): the words after `launch`. Prints its errors. @return the exit code */
int launch(int argc, char **argv, launch_supervisor *);

/* ---- the request: launch_request.c ---- */

struct launch_request {
    int n_ranks;
    const char *host, *hostfile; /* NULL: this host only */
    bool own;                    /* the direct transport, without mpirun */
    int spares, elastic;         /* own: idle processes; the fewest ranks that go on after a death, 0: the job ends */
    int respawn;                 /* how many dead processes are started again, as spares */
    int nodes;                   /* own: number of emulated hosts, with TCP between them; 0: none */
    const char *agent_command;   /* own: command that starts an agent; "": ssh; "none": the user starts all agents */
    const char *meet;            /* address where agents find launch; NULL: launch chooses, and passes it to them */
    bool encrypts;               /* own: encrypt the traffic between hosts; false: authenticate it only */
    double heartbeat_s;          /* a host that is silent for this long is lost */
    double hang_s;               /* a rank that does not move for this long is killed; 0: no limit */
    int chaos;                   /* seed of failures on purpose (chaos.h); 0: none */
    double chaos_s;              /* mean seconds between two such failures */
    char **options;              /* launch's own words, borrowed from argv */
    int n_options;
    char **command;              /* COMMAND args..., NULL at the end; borrowed from argv */
    int n_words;
    bool help;
    /* ---- for the supervisor ---- */
    int max_restarts, min_ranks; /* max_restarts 0: none; min_ranks 0: always n_ranks */
    double backoff_s;            /* before the first restart; doubled for each next one */
};

extern const char launch_help[];
/** Does the job run on this host alone, by the request and Slurm's environment? Pure. */
bool launch_is_one_host(const struct launch_request *);
/** @errors E_USAGE: -n missing, not a number or below 1; an unknown launch option; no command */
enum status launch_parse(int argc, char **argv, struct launch_request *out);

/** Make the command line of mpirun, or of the agent (which takes launch's own words, agent.h), then NULL. *out is
 *  owned, `free` it; words are borrowed. self, program: this one, the ranks'; ranks_text: n_ranks. @errors E_MEMORY */
enum status launch_words(const struct launch_request *, const char *self, const char *program, const char *ranks_text,
                         char ***out);

/* ---- one run of it: launch.c ---- */
struct launch_outcome;

/** Start the job, wait for its end, print one line if it failed. @errors as launch_job and launch_words */
enum status launch_attempt(const struct launch_request *, struct launch_outcome *out);

/* ---- mpirun's standard error: launch_filter.c ---- */

/* The first rank that failed, from mpirun's text; rank -1: the text names none. */
struct launch_facts {
    bool error_seen; /* an E_ line has gone through */
    int rank;
    int signal;      /* the signal that killed the rank; 0: it exited or aborted */
    int exit_code;   /* of a rank that exited or aborted */
    int n_saved, n_done; /* ranks that have said that they end with code 75, with 0 (only under Hydra) */
    bool no_shared_memory; /* Open MPI could not make its shared memory; the cause if no other is known */
    char host[64], signal_name[48];
    char error[512]; /* the E_ line, or its beginning */
};

struct launch_filter {
    struct launch_facts facts;
    enum { FILTER_OUTSIDE, FILTER_AFTER_DASHES, FILTER_IN_BOILERPLATE } state;
    char held[256]; /* a line of dashes, held until the next line shows which block it opens */
};

enum launch_verdict { LINE_DROP, LINE_PASS, LINE_HOLD /* until the next line */,
                      LINE_PASS_HELD /* filter->held first, then the line */ };

/** The state before the first line: outside mpirun's messages, no facts. */
void launch_filter_init(struct launch_filter *);

/** Judge one line (NUL-terminated, with or without its line end) and store its facts in the filter. Pure otherwise. */
enum launch_verdict launch_filter_line(struct launch_filter *, const char *line);

/** The code of a job that Hydra ends with `code`, after a signal to it. Hydra 4.0 then takes 0 for the code of a rank
 *  whose pipes close just before it ends, and or-s all codes: so 0 and 75 are only what each rank has said. Pure. */
int launch_code_of_hydra(const struct launch_facts *, int code, int n_ranks);

/** When no further line comes: the line that is still held, or "". Borrowed until the next call. */
const char *launch_filter_end(struct launch_filter *);

/* ---- passing text on: launch_text.c ---- */

struct launch_text {
    struct launch_filter *filter;
    int out_fd, err_fd;         /* pipes from mpirun; -1: all its processes have closed them */
    char out[4096];             /* standard output that is not written yet */
    size_t out_at, out_bytes;
    int lost;                   /* errno of the write that lost standard output; EPIPE: its reader left; 0: none */
    char line[8192];
    size_t line_bytes;
};

/** Takes the read ends of both pipes. */
void launch_text_init(struct launch_text *, struct launch_filter *, int out_fd, int err_fd);
/** Wait at most a quarter of a second for text, room to write it, or a signal; pass text on. @return was there text */
bool launch_text_turn(struct launch_text *);
/** Can more text come, or is some not yet written? */
bool launch_text_is_open(const struct launch_text *);
/** Print the held text, and close the pipes. */
void launch_text_finish(struct launch_text *);

/* ---- signals to launch: launch_signals.c ---- */

/** Until launch_unwatch_signals, note HUP INT QUIT TERM USR1 CHLD instead of obeying; ignore PIPE. @errors E_IO */
enum status launch_watch_signals(void);
void launch_unwatch_signals(void);
/** launch_signal_fd: a descriptor that is readable when a signal has come. launch_next_signal: the signal; 0: none. */
int launch_signal_fd(void);
int launch_next_signal(void);
/** Wait. @return 0, or the signal (other than CHLD) that ended the wait */
int launch_pause(double seconds);
/** Make a pipe that is closed on exec: read fd[0], write fd[1]. @errors E_IO */
enum status launch_pipe(int fd[2]);

/* ---- the child process: launch_job.c ---- */

struct launch_end {
    int code;    /* exit code of mpirun; 128 + signal if it was killed, as in shells */
    bool killed; /* mpirun itself was killed by signal code - 128 */
    int stop_signal; /* the last of HUP INT QUIT TERM that reached launch; 0: none */
    bool asked;      /* HUP INT QUIT TERM or USR1 has reached launch */
    bool forced;     /* mpirun did not end after TERM, and was killed */
    bool reader_left; /* the reader of standard output left, which ended the job */
    int text_lost;   /* errno, when standard output could not be written */
};

/** Run words[0] from PATH, filter its standard error and pass signals on, until it and all its processes have ended.
 *  @errors E_CONFIG: words[0] cannot be run; E_IO: no pipe or process; E_COMM: a process does not end */
enum status launch_job(char *const *words, struct launch_filter *, struct launch_end *out);

/* ---- processes and files that remain: launch_remains.c ---- */

/** Mark the environment, so that the job's processes can be found. */
void launch_mark(void);
/** For a job on this host alone: point Open MPI's files and shared memory to folders of the job, so that they can be
 *  removed. Call after launch_mark. */
void launch_scratch_name(void);
/** For one attempt: launch_scratch_make makes the named folders, launch_scratch_remove removes them and their files. */
void launch_scratch_make(void);
void launch_scratch_remove(void);
/** Remove a folder and its contents. Follows no links. */
void launch_remove_tree(const char *path);
bool launch_mark_in(const char *environment, size_t bytes, const char *mark);
enum { LAUNCH_LEAVES_S = 1 }; /* Open MPI's helper processes end shortly after the program */
/** Kill all marked processes, no others, that still exist after this time; wait until they are gone. @errors E_COMM */
enum status launch_end_remains(double patience_s);

/* ---- flight records of a failed attempt: launch_flight.c ---- */

/** If the attempt failed, print which rank blocked it, and copy the ranks' flight records to
 *  TMPDIR/trivium-UID/flight.JOB; the newest 16 jobs' records stay. Then remove the records from this host's shared
 *  memory. Call after launch_mark, when no rank is left. */
void launch_flight(bool failed);

/* How an attempt ended. */
struct launch_outcome {
    int code;       /* launch's exit code, if this is the last attempt */
    struct launch_facts facts;
    struct launch_end end;
    char line[512]; /* the one line of the failure */
    double wall_s;
};
