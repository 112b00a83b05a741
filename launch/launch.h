/* `trivium launch`: start the ranks of a job on this host or on several, and make what comes back readable.
 *
 *   trivium launch -n 8 [--host LIST | --hostfile FILE] COMMAND args...
 *
 * forks Open MPI's `mpirun`, which runs this same program with `COMMAND args...` as each rank, and waits. Ranks'
 * standard output passes through untouched; when its reader leaves, the job ends. Standard error is read line by line,
 * because a failing job has much to say there and one thing to tell: the first E_ line goes through, the others that
 * follow from it, and mpirun's remarks on them, do not. With --max-restarts a job that dies is started again from its
 * last checkpoint (launch_restart.h).
 *
 * Exit code: 0 done, 1 a rank failed, was killed or never started, 2 bad request, 75 checkpointed and to be resumed,
 * 130 interrupted (Ctrl-C), 141 the reader of standard output left (`| head`). */
#ifndef TRIVIUM_LAUNCH_H
#define TRIVIUM_LAUNCH_H

#include "lib/base/status.h"
#include <stdbool.h>
#include <stddef.h>

enum {
    EXIT_CHECKPOINTED = 75,       /* EX_TEMPFAIL of sysexits.h: "try again" */
    EXIT_READER_LEFT = 128 + 13,  /* as a shell says it of any program that SIGPIPE ends */
    LAUNCH_MOST_BACKOFF_S = 60,
    LAUNCH_MOST_HANG_S = 86400
};

struct launch_request;

/** What makes the attempts, one or, with --max-restarts, several until one is the last. *code is launch's. Signals are
 *  watched.
 *  @errors its own, and those of launch_attempt */
typedef enum status launch_supervisor(const struct launch_request *, int *code);

/** argv[0..argc) are the words after `launch`. Errors are reported here. @return the exit code */
int launch(int argc, char **argv, launch_supervisor *);

/* ---- what was asked for: launch_request.c ---- */

struct launch_request {
    int n_ranks;
    const char *host, *hostfile; /* NULL: this host only */
    bool own;                    /* the direct transport, without mpirun */
    int spares, elastic;         /* of it: idle ranks; fewest ranks that go on without dead ones, 0: none do */
    int respawn;                 /* how many dead ranks are started again, as spares */
    int nodes;                   /* own: hosts that are emulated, with TCP between them; 0: none are */
    const char *agent_command;   /* own, several hosts: what starts their agents; "": ssh, or nothing; "none" */
    const char *meet;            /* where agents find launch; NULL: launch says so to those that it starts */
    bool encrypts;               /* own: what goes between hosts; else it is authenticated only */
    double heartbeat_s;          /* a host without a sign for so long is lost */
    double hang_s;               /* a rank that does not move for so long is killed; 0: none is */
    int chaos;                   /* seed of what is done to ranks on purpose (chaos.h); 0: nothing is */
    double chaos_s;              /* mean seconds from one such act to the next */
    char **options;              /* launch's own words, borrowed from argv */
    int n_options;
    char **command;              /* COMMAND args..., NULL at the end; borrowed from argv */
    int n_words;
    bool help;
    /* ---- for the supervisor ---- */
    int max_restarts, min_ranks; /* 0: none; 0: always n_ranks */
    double backoff_s;            /* before the first restart; each next one waits twice as long */
};

extern const char launch_help[];
/** On this host alone, as far as the request and Slurm say. Pure. */
bool launch_is_one_host(const struct launch_request *);
/** @errors E_USAGE: -n missing, not a number or below 1; an unknown launch option; no command */
enum status launch_parse(int argc, char **argv, struct launch_request *out);

/** The words of the command line, mpirun's or the agent's (agent.h: launch's own words again), NULL at the end. *out is
 *  owned, `free` it; the words are borrowed. self: this program; program: the ranks'; ranks_text: n_ranks.
 *  @errors E_MEMORY */
enum status launch_words(const struct launch_request *, const char *self, const char *program, const char *ranks_text,
                         char ***out);

/* ---- one run of it: launch.c ---- */
struct launch_outcome;

/** Start the job, wait for its end, report its one line. Signals are watched. @errors as launch_job and launch_words */
enum status launch_attempt(const struct launch_request *, struct launch_outcome *out);

/* ---- what mpirun's standard error says: launch_filter.c ---- */

/* The first rank that ended badly, as far as mpirun tells; rank -1 where it does not. */
struct launch_facts {
    bool error_seen; /* an E_ line has gone through */
    int rank;
    int signal;      /* that killed it; 0: it exited or aborted by itself */
    int exit_code;   /* of a rank that exited or aborted */
    bool no_shared_memory; /* Open MPI could not make it: the reason, if there is no other */
    char host[64], signal_name[48];
    char error[512]; /* the E_ line, or its beginning */
};

struct launch_filter {
    struct launch_facts facts;
    enum { FILTER_OUTSIDE, FILTER_AFTER_DASHES, FILTER_IN_BOILERPLATE } state;
    char held[256]; /* a line of dashes, until the next line tells what it opens */
};

enum launch_verdict { LINE_DROP, LINE_PASS, LINE_HOLD /* not yet */,
                      LINE_PASS_HELD /* filter->held first, then the line */ };

/** As before the first line: outside of any message of mpirun, no facts yet. */
void launch_filter_init(struct launch_filter *);

/** Judge one line (NUL-terminated, with or without its line end) and keep its facts. Pure: writes nothing anywhere
 *  else. */
enum launch_verdict launch_filter_line(struct launch_filter *, const char *line);

/** The text that is held back, "" for none, when no further line comes. Borrowed until the next call. */
const char *launch_filter_end(struct launch_filter *);

/* ---- what it says passed on: launch_text.c ---- */

struct launch_text {
    struct launch_filter *filter;
    int out_fd, err_fd;         /* pipes from mpirun; -1 after the last of its processes has closed it */
    char out[4096];             /* standard output that is not written yet */
    size_t out_at, out_bytes;
    int lost;                   /* errno of the write that lost standard output; EPIPE: its reader left; 0: none */
    char line[8192];
    size_t line_bytes;
};

/** Takes the read ends of both pipes. */
void launch_text_init(struct launch_text *, struct launch_filter *, int out_fd, int err_fd);
/** Wait a quarter of a second for text, for room to write it, or for a signal, and pass on what there is. @return
 *  whether there was text */
bool launch_text_turn(struct launch_text *);
/** Whether there may be more. */
bool launch_text_is_open(const struct launch_text *);
/** Show what is held back, and close the pipes. */
void launch_text_finish(struct launch_text *);

/* ---- signals to launch: launch_signals.c ---- */

/** From here until unwatch, HUP INT QUIT TERM USR1 and CHLD are noted instead of obeyed, and PIPE is ignored. @errors
 *  E_IO */
enum status launch_watch_signals(void);
void launch_unwatch_signals(void);
/** Readable when one has come; the next one, 0: none. */
int launch_signal_fd(void);
int launch_next_signal(void);
/** Wait so long. @return 0, or the signal (other than CHLD) that ended the wait */
int launch_pause(double seconds);
/** A pipe that other programs do not inherit: fd[0] is read, fd[1] written. @errors E_IO */
enum status launch_pipe(int fd[2]);

/* ---- the child process: launch_job.c ---- */

struct launch_end {
    int code;    /* exit code of mpirun; 128 + signal when it was killed itself, as shells say it */
    bool killed; /* mpirun itself was killed by signal code - 128 */
    int stop_signal; /* the last of HUP INT QUIT TERM that reached launch; 0: none */
    bool asked;      /* one of these, or USR1, has reached launch */
    bool forced;     /* mpirun did not end when it was told to, and was killed */
    bool reader_left; /* standard output has no reader any more, which ended the job */
    int text_lost;   /* errno, when standard output could not be written */
};

/** Run words[0] from PATH, its standard error through the filter, and pass signals on, until it ends and nothing is
 *  left of it.
 *  @errors E_CONFIG: it is not installed; E_IO: the system refused a pipe or a process; E_COMM: a process that does not
 *  end */
enum status launch_job(char *const *words, struct launch_filter *, struct launch_end *out);

/* ---- what it leaves: launch_remains.c ---- */

/** Mark the environment, so that the job's processes can be told from all others. */
void launch_mark(void);
/** Of a job on this host alone: Open MPI's files and shared memory go to folders of its own, so that none outlives it.
 *  After launch_mark. */
void launch_scratch_name(void);
/** For one attempt: make the folders that have been named, and remove them with what is in them. */
void launch_scratch_make(void);
void launch_scratch_remove(void);
/** Remove a folder with all that is in it. No link is followed. */
void launch_remove_tree(const char *path);
bool launch_mark_in(const char *environment, size_t bytes, const char *mark);
enum { LAUNCH_LEAVES_S = 1 }; /* what Open MPI starts beside a program goes a moment after it */
/** Kill what has the mark and still exists after this many seconds, and wait until it is gone. Nothing else is touched.
 *  @errors E_COMM */
enum status launch_end_remains(double patience_s);

/* ---- what its ranks did last: launch_flight.c ---- */

/** Of an attempt that failed: say who held it up, and keep its ranks' flight records in TMPDIR/trivium-UID/flight.JOB;
 *  those of the newest 16 jobs stay. In any case none is left in this host's shared memory. After launch_mark, when no
 *  rank is left. */
void launch_flight(bool failed);

/* How an attempt ended. */
struct launch_outcome {
    int code;       /* what launch ends with, if this is the last */
    struct launch_facts facts;
    struct launch_end end;
    char line[512]; /* the one line of the failure */
    double wall_s;
};

#endif
