/* Starting ranks, and seeing them end.
 *
 * A rank has ended well if its line of the job's memory says that it has finished (lib/comm/own/job.h), whatever its
 * exit code: 75, for one, means "saved, to be resumed". Any other end is a failure, even with code 0: its peers would
 * wait for it. Then the agent tells launch who it was, sends the others a TERM, and a second later a KILL, which ends
 * those too that are stopped. Should the agent itself be killed, the kernel kills its ranks.
 *
 * In an elastic job a rank that a signal has killed is a member less: the agent opens the next epoch (epoch.h). One
 * that ends by itself has a reason that the others have, too, or that a person has to see: that ends the job. When the
 * first member has finished, all have come to the end (own.c), and a death costs nothing; spares are not needed any
 * more.
 *
 * A rank that does not move (--hang-timeout) is stopped or stuck: its line's beat stands still. The agent kills it, and
 * all else follows. While the agent itself was stopped, with the whole job, nothing counts. */
#include "driver/launch/agent.h"

#include "driver/launch/chaos.h"
#include "driver/launch/host.h"
#include "driver/launch/launch.h"
#include "driver/launch/lighthouse.h"
#include "driver/launch/rank.h"
#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/comm/own/job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const double ends_s = 1;              /* after its TERM a rank has so long */
static const double turn_s = 0.1, chaos_turn_s = 0.005;

struct agent {
    struct own_job job;                      /* slot: unused */
    struct own_memory *memory;
    pid_t pid[OWN_MOST_RANKS];               /* 0: ended */
    int n, least;                            /* ranks at first; fewest that go on, 0: none does */
    int n_left, code;                        /* code: what the agent ends with */
    double ending_s;                         /* when the ranks got their TERM; 0: they have not */
    double hang_s, looked_s;                 /* 0: not looked for; the last look at who moves */
    struct { unsigned beat; double moved_s, goes_on_s; } seen[OWN_MOST_RANKS];   /* goes_on_s: of a slowed one, or 0 */
    int chaos, n_acts;                       /* its seed, 0: none */
    double chaos_s, act_s;                   /* mean time between two acts; when the next one is */
    struct chaos_costs costs;
};

/* ---- start ---- */
static enum status start_ranks(struct agent *a, char **words, const sigset_t *unblocked) {
    pid_t self = getpid();
    for (int r = 0; r < a->job.n_slots; r++) {
        struct own_job job = a->job;
        job.slot = r;
        a->pid[r] = fork();
        if (a->pid[r] == 0) rank_become(&job, r, words, unblocked, self);
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

/* ---- who does not move ---- */
/* Has been started, and has not come to its end. */
static bool should_move(const struct agent *a, int slot) {
    return a->pid[slot] && atomic_load(&a->memory->line[slot].state) == OWN_RUNNING;
}

static void kill_who_hangs(struct agent *a, double now_s) {
    for (int s = 0; s < a->job.n_slots; s++) {
        unsigned beat = atomic_load(&a->memory->line[s].beat);
        if (beat != a->seen[s].beat || !should_move(a, s) || a->seen[s].moved_s == 0) {
            a->seen[s].beat = beat;
            a->seen[s].moved_s = now_s;
        } else if (now_s - a->seen[s].moved_s > a->hang_s) {
            fprintf(stderr, "trivium: process %d has not moved for %g s, and is killed\n", s, a->hang_s);
            kill(a->pid[s], SIGKILL);
            a->seen[s].moved_s = now_s;
        }
    }
}

static void look_who_moves(struct agent *a) {
    double now_s = clock_s(), gap_s = now_s - a->looked_s;
    if (a->hang_s <= 0 || a->ending_s > 0 || gap_s < turn_s / 2) return;
    for (int s = 0; s < a->job.n_slots && gap_s > 1; s++) a->seen[s].moved_s += gap_s;     /* it was stopped itself */
    a->looked_s = now_s;
    kill_who_hangs(a, now_s);
}

/* ---- the others go on ---- */
static struct epoch_shape shape_of(const struct agent *a) {
    return a->memory->shape.n_inner ? a->memory->shape : (struct epoch_shape){1, 1, 0, 0};
}

static bool has_finished(const struct agent *a, int slot) {
    return atomic_load(&a->memory->line[slot].state) == OWN_FINISHED;
}

/* Open an epoch of those that are left. @return whether they are enough */
static bool go_on(struct agent *a, int slot, int status) {
    const struct epoch now = own_epoch_now(a->memory);
    bool alive[OWN_MOST_RANKS], finished = false;
    int place = epoch_place(&now, slot);
    for (int s = 0; s < a->job.n_slots; s++) {
        alive[s] = a->pid[s] != 0;
        finished |= has_finished(a, s);
    }
    const struct epoch_shape shape = shape_of(a);
    const struct epoch next = epoch_after(&now, own_epoch_is_whole(a->memory, &now), alive, a->job.n_slots, &shape);
    if (place >= 0 && !finished && (next.n == 0 || next.n < a->least)) return false;
    fprintf(stderr, "trivium: signal %d (%s) has killed %s %d", WTERMSIG(status), strsignal(WTERMSIG(status)),
            place < 0 ? "spare" : "rank", place < 0 ? slot : place);
    if (place < 0 || finished) {
        fprintf(stderr, "; nothing is lost\n");
        return true;
    }
    fprintf(stderr, "; epoch %d goes on with %d ranks\n", next.number, next.n);
    if (own_epoch_open(a->memory, &a->job, &next) != OK) {
        status_report();
        return false;
    }
    chaos_died(&a->costs, clock_s());
    return true;
}

/* ---- chaos ---- */
static void go_on_with_slowed(struct agent *a, double now_s) {
    for (int s = 0; s < a->job.n_slots; s++) {
        if (a->seen[s].goes_on_s == 0 || now_s < a->seen[s].goes_on_s) continue;
        if (a->pid[s]) kill(a->pid[s], SIGCONT);
        a->seen[s].goes_on_s = 0;
    }
}

/* Who is stopped already, or has ended, is no victim. */
static void act(struct agent *a, double now_s) {
    static const int signals[] = {[CHAOS_KILL] = SIGKILL, [CHAOS_STOP] = SIGSTOP, [CHAOS_SLOW] = SIGSTOP};
    bool alive[OWN_MOST_RANKS];
    for (int s = 0; s < a->job.n_slots; s++) alive[s] = should_move(a, s) && a->seen[s].goes_on_s == 0;
    const struct epoch now = own_epoch_now(a->memory);
    const struct chaos_job job = {now, own_epoch_is_whole(a->memory, &now), alive, a->job.n_slots, a->least,
                                  shape_of(a)};
    const struct chaos_act x = chaos_act(a->chaos, a->n_acts++, a->chaos_s, a->hang_s, &job);
    a->act_s = now_s + x.seconds;
    for (int i = 0; i < x.n; i++) {
        kill(a->pid[x.slot[i]], signals[x.kind]);
        a->costs.acts[x.kind]++;
        if (x.kind == CHAOS_SLOW) a->seen[x.slot[i]].goes_on_s = now_s + x.slow_s;
        if (x.kind == CHAOS_STOP) a->seen[x.slot[i]].goes_on_s = INFINITY;
    }
}

/* From the first step to the last. */
static void wreak_chaos(struct agent *a) {
    double now_s = clock_s();
    int64_t done = atomic_load(&a->memory->done);
    if (!a->chaos || a->ending_s > 0) return;
    chaos_look(&a->costs, own_done_epoch(done), own_done_step(done), now_s);
    go_on_with_slowed(a, now_s);
    bool finished = false;
    for (int s = 0; s < a->job.n_slots; s++) finished |= has_finished(a, s);
    if (a->costs.from_s == 0 || finished) return;
    if (a->act_s == 0) a->act_s = now_s + a->chaos_s;
    else if (now_s >= a->act_s) act(a, now_s);
}

/* All that are members have finished: who is left is a spare. */
static bool only_spares_are_left(const struct agent *a) {
    const struct epoch now = own_epoch_now(a->memory);
    for (int i = 0; i < now.n; i++)
        if (a->pid[now.slot[i]]) return false;
    return true;
}

static void has_ended(struct agent *a, int rank, int status) {
    bool finished = WIFEXITED(status) && has_finished(a, rank);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    a->pid[rank] = 0;
    a->n_left--;
    if (a->ending_s > 0) return;             /* it was told to */
    if (a->least && WIFSIGNALED(status) && go_on(a, rank, status)) return;
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
        if (a->code == 0) a->code = 1;       /* no rank has failed: of those the code tells (launch.c) */
        end_all(a);
    }
}

static void wait_for_all(struct agent *a, const sigset_t *watched) {
    const struct timespec turn = {0, (long)(1e9 * (a->chaos ? chaos_turn_s : turn_s))};
    for (;;) {
        look_for_ends(a);
        look_who_moves(a);
        wreak_chaos(a);
        if (a->n_left == 0) return;
        if (only_spares_are_left(a)) end_all(a);
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
    TRY(own_memory_make(a->job.n_slots, a->n, &a->job.fd));
    TRY(own_memory_map(&a->job, &a->memory));
    enum status status = start_ranks(a, words, &before);
    if (status != OK) end_all(a);
    wait_for_all(a, &watched);
    if (a->chaos) chaos_print(&a->costs, a->chaos, clock_s(), stderr);
    own_memory_unmap(a->memory);
    return status;
}

int agent_main(int argc, char **argv) {
    static struct agent agent;
    struct launch_request request;
    if (host_is_meant(argc, argv)) return host_main(argc, argv);
    enum status status = launch_parse(argc, argv, &request);
    if (status == OK && request.own && (request.host || request.hostfile)) return lighthouse_main(&request);
    if (status == OK && (!request.own || request.help))
        status = FAIL(E_USAGE, "agent is what launch runs; use trivium launch");
    agent = (struct agent){.n = request.n_ranks, .least = request.elastic, .hang_s = request.hang_s,
                           .chaos = request.chaos, .chaos_s = request.chaos_s, .looked_s = clock_s(),
                           .job.n_slots = request.n_ranks + request.spares, .job.n_nodes = request.nodes};
    if (status == OK) status = run(&agent, request.command);
    status_report();
    return status == OK ? agent.code : status_exit_code(status);
}
