/* Starting ranks, and seeing them end.
 *
 * A rank has ended well if its line of the job's memory says that it has finished (lib/comm/own/job.h), whatever its
 * exit code: 75, for one, means "saved, to be resumed". Any other end is a failure, even with code 0: its peers would
 * wait for it. Then the agent tells launch who it was, sends the others a TERM, and a second later a KILL, which ends
 * those too that are stopped. Should the agent itself be killed, the kernel kills its ranks.
 *
 * In an elastic job a rank that a signal has killed is a member less: the agent opens the next epoch (epoch.h). One
 * that ends by itself has a reason that the others have, too, or that a person has to see: that ends the job. When the
 * first member has said that all is done (comm_epoch_close), or has finished, a death costs nothing; spares are not
 * needed any more.
 *
 * An epoch may also be planned (planned.c): the agent looks for a better one at each turn. With --respawn, a dead
 * process is started again, as a spare.
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
#include "lib/comm/own/planned.h"

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
    char **words;                            /* of a rank's program */
    sigset_t unblocked;                      /* what it is to find unblocked */
    pid_t pid[OWN_MOST_RANKS];               /* 0: ended, or not started yet */
    int n, least;                            /* ranks at first; fewest that go on, 0: none does */
    int n_at_first, n_started;               /* processes; those of --respawn come later */
    int n_left, code;                        /* code: what the agent ends with */
    bool told[OWN_MOST_RANKS], left[OWN_MOST_RANKS];   /* that it cannot leave; it has, and is ended */
    double ending_s;                         /* when the ranks got their TERM; 0: they have not */
    double hang_s, looked_s;                 /* 0: not looked for; the last look at who moves */
    struct { unsigned beat; double moved_s, goes_on_s; } seen[OWN_MOST_RANKS];   /* goes_on_s: of a slowed one, or 0 */
    int lost[2], for_lost;                   /* slots that have lost each other, or -1; the epoch opened for that */
    int chaos, n_acts;                       /* its seed, 0: none */
    double chaos_s, act_s;                   /* mean time between two acts; when the next one is */
    struct chaos_costs costs;
};

/* ---- start ---- */
static enum status start_rank(struct agent *a) {
    pid_t self = getpid();
    int r = a->n_started;
    struct own_job job = a->job;
    job.slot = r;
    a->pid[r] = fork();
    if (a->pid[r] == 0) rank_become(&job, r, a->words, &a->unblocked, self);
    if (a->pid[r] < 0) {
        a->pid[r] = 0;
        return FAIL(E_IO, "cannot start rank %d of %d: %s; close other programs or raise `ulimit -u`", r,
                    a->job.n_slots, strerror(errno));
    }
    a->n_started++;
    a->n_left++;
    return OK;
}

static enum status start_ranks(struct agent *a) {
    while (a->n_started < a->n_at_first) TRY(start_rank(a));
    return OK;
}

/* --respawn: in place of a dead one, with a number of its own (epoch.c). */
static void start_another(struct agent *a) {
    if (a->n_started == a->job.n_slots) return;
    int left = a->job.n_slots - a->n_started - 1;
    if (start_rank(a) != OK) {
        status_report();
        return;
    }
    fprintf(stderr, "trivium: process %d is started as a spare; %d more may be\n", a->n_started - 1, left);
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
    struct epoch_shape shape = a->memory->shape.n_inner ? a->memory->shape : (struct epoch_shape){1, 1, 0, 0, 0, {0}};
    shape.most = a->n;
    return shape;
}

static bool has_finished(const struct agent *a, int slot) {
    return atomic_load(&a->memory->line[slot].state) == OWN_FINISHED;
}

static bool any_has_finished(const struct agent *a) {
    bool any = own_epoch_is_closed(a->memory);
    for (int s = 0; s < a->job.n_slots; s++) any |= has_finished(a, s);
    return any;
}

/* Who lives, and is of use: not one that is a spare because it has left, once what it had is elsewhere; nor one that
 * was started later and is not there yet. */
static void find_alive(const struct agent *a, const struct epoch *now, bool whole, bool *alive) {
    for (int s = 0; s < a->job.n_slots; s++) {
        bool spare = epoch_place(now, s) < 0;
        bool has_left = spare && whole && a->memory->line[s].wish == EPOCH_LEAVES;
        bool is_starting = spare && s >= a->n_at_first && a->memory->line[s].state == OWN_STARTING;
        alive[s] = a->pid[s] && !has_left && !is_starting;
    }
}

/* @return whether it is open: not if the job is closed; nor if there is no room for it, and then the job ends */
static bool open_epoch(struct agent *a, const struct epoch *next) {
    bool opened;
    if (own_epoch_open(a->memory, &a->job, next, &opened) == OK) return opened;
    status_report();
    if (a->code == 0) a->code = 1;
    end_all(a);
    return false;
}

/* Open an epoch of those that are left. @return whether they are enough, and there is room for it */
static bool go_on(struct agent *a, int slot, int status) {
    const struct epoch now = own_epoch_now(a->memory);
    bool alive[OWN_MOST_RANKS], finished = any_has_finished(a), whole = own_epoch_is_whole(a->memory, &now);
    int place = epoch_place(&now, slot);
    find_alive(a, &now, whole, alive);
    const struct epoch_shape shape = shape_of(a);
    const struct epoch next = epoch_after(&now, whole, alive, a->job.n_slots, &shape);
    if (place >= 0 && !finished && (next.n == 0 || next.n < a->least)) return false;
    const bool opened = place >= 0 && !finished && open_epoch(a, &next);
    if (a->ending_s > 0) return false;
    fprintf(stderr, "trivium: signal %d (%s) has killed %s %d", WTERMSIG(status), strsignal(WTERMSIG(status)),
            place < 0 ? "spare" : "rank", place < 0 ? slot : place);
    if (!opened) {
        fprintf(stderr, "; nothing is lost\n");
        return true;
    }
    fprintf(stderr, "; epoch %d goes on with %d ranks\n", next.number, next.n);
    chaos_died(&a->costs, clock_s());
    return true;
}

/* ---- two that have lost each other ---- */
/* The first that says so, and whom. */
static bool find_lost(const struct agent *a, const struct epoch *now, int lost[2]) {
    for (int i = 0; i < now->n; i++) {
        lost[0] = now->slot[i];
        lost[1] = own_lost_slot(atomic_load(&a->memory->line[lost[0]].lost), now->number);
        if (lost[1] >= 0 && epoch_place(now, lost[1]) >= 0 && a->pid[lost[0]] && a->pid[lost[1]]) return true;
    }
    return false;
}

/* Both live, still at the second look: a rank's connections end a moment before it is seen to be dead. An epoch of the
 * same ranks makes all connections again. If it cannot, one of the two is on the wrong side of the network. */
static void look_who_is_lost(struct agent *a) {
    const struct epoch now = own_epoch_now(a->memory);
    const bool whole = own_epoch_is_whole(a->memory, &now);
    int lost[2], before[2] = {a->lost[0], a->lost[1]};
    a->lost[0] = a->lost[1] = -1;
    if (!a->least || a->ending_s > 0 || any_has_finished(a) || !find_lost(a, &now, lost)) return;
    a->lost[0] = lost[0], a->lost[1] = lost[1];
    if (before[0] != lost[0] || before[1] != lost[1]) return;
    if (now.number == a->for_lost && !whole) {
        int which = lost[0] > lost[1] ? lost[0] : lost[1];
        fprintf(stderr, "trivium: rank %d cannot be reached by rank %d, and is killed\n", epoch_place(&now, which),
                epoch_place(&now, lost[0] + lost[1] - which));
        kill(a->pid[which], SIGKILL);
        return;
    }
    struct epoch next = now;
    next.number++;
    next.from = epoch_from(&now, whole);
    if (!open_epoch(a, &next)) return;
    fprintf(stderr, "trivium: ranks %d and %d have lost each other; epoch %d goes on with %d ranks\n",
            epoch_place(&now, lost[0]), epoch_place(&now, lost[1]), next.number, next.n);
    a->for_lost = next.number;
    chaos_died(&a->costs, clock_s());
}

/* ---- epochs that are planned ---- */
/* Their state is elsewhere: the new epoch is whole. */
static void end_who_has_left(struct agent *a, const struct epoch *now) {
    for (int s = 0; s < a->job.n_slots; s++) {
        if (!a->pid[s] || a->left[s] || epoch_place(now, s) >= 0 || a->memory->line[s].wish != EPOCH_LEAVES) continue;
        a->left[s] = true;
        kill(a->pid[s], SIGKILL);
    }
}

static void open_planned(struct agent *a, const struct planned_job *job, const struct planned *plan) {
    const struct epoch next = plan->next.n ? plan->next : planned_anyway(job);
    if (!open_epoch(a, &next)) return;
    if (plan->leaves >= 0) {
        fprintf(stderr, "trivium: rank %d leaves; epoch %d goes on with %d ranks\n",
                epoch_place(&job->now, plan->leaves), next.number, next.n);
        atomic_store(&a->memory->line[plan->leaves].wish, EPOCH_LEAVES);       /* one that was relieved does, too */
    } else {
        fprintf(stderr, "trivium: there are spares for more; epoch %d goes on with %d ranks\n", next.number, next.n);
    }
}

static void tell_who_cannot_leave(struct agent *a, const struct planned_job *job, int slot) {
    if (slot < 0 || a->told[slot]) return;
    a->told[slot] = true;
    fprintf(stderr, "trivium: rank %d was asked to leave, and stays until there is a spare for it: --elastic wants %d "
            "ranks\n", epoch_place(&job->now, slot), a->least);
}

/* Ask for the end of this epoch, if there is a better one; open the next when all members rest. */
static void plan_ahead(struct agent *a) {
    bool ready[OWN_MOST_RANKS], alive[OWN_MOST_RANKS];
    int wish[OWN_MOST_RANKS];
    struct planned_job job = {own_epoch_now(a->memory), ready, alive, wish, a->job.n_slots, a->least, shape_of(a)};
    if (!a->least || a->ending_s > 0 || any_has_finished(a) || !own_epoch_is_whole(a->memory, &job.now)) return;
    end_who_has_left(a, &job.now);
    for (int s = 0; s < a->job.n_slots; s++) {
        wish[s] = atomic_load(&a->memory->line[s].wish);
        alive[s] = a->pid[s] != 0;
        ready[s] = should_move(a, s) && wish[s] == EPOCH_STAYS && a->seen[s].goes_on_s == 0;
    }
    const struct planned plan = planned_epoch(&job);
    tell_who_cannot_leave(a, &job, plan.cannot);
    if (a->memory->ends == job.now.number && own_epoch_rests(a->memory, &job.now)) open_planned(a, &job, &plan);
    else if (plan.next.n) a->memory->ends = job.now.number;
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
    int node[OWN_MOST_RANKS];
    for (int s = 0; s < a->job.n_slots; s++) node[s] = own_node(&a->job, s);
    bool may_cut = a->costs.last_epoch == now.number && a->costs.in_epoch >= CHAOS_STEPS_BEFORE_A_CUT;
    const struct chaos_job job = {now, own_epoch_is_whole(a->memory, &now), alive, a->job.n_slots, a->least,
                                  shape_of(a), may_cut ? node : NULL};
    const struct chaos_act x = chaos_act(a->chaos, a->n_acts++, a->chaos_s, a->hang_s, &job);
    a->act_s = now_s + x.seconds;
    if (x.kind == CHAOS_CUT) {
        atomic_store(&a->memory->line[x.slot[0]].cut, 1 + x.slot[1]);
        a->costs.acts[CHAOS_CUT]++;
        return;
    }
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
    if (a->costs.from_s == 0 || any_has_finished(a)) return;
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
    if (a->left[rank]) {
        fprintf(stderr, "trivium: process %d has left\n", rank);
        return;
    }
    if (a->least && WIFSIGNALED(status) && go_on(a, rank, status)) {
        if (!any_has_finished(a)) start_another(a);
        return;
    }
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
        look_who_is_lost(a);
        plan_ahead(a);
        wreak_chaos(a);
        if (a->n_left == 0) return;
        if (only_spares_are_left(a)) end_all(a);
        int number = sigtimedwait(watched, NULL, &turn);
        if (number > 0) on_signal(a, number);
        if (a->ending_s > 0 && clock_s() > a->ending_s + ends_s) signal_all(a, SIGKILL);
    }
}

static enum status run(struct agent *a) {
    static const int signals[] = {SIGCHLD, SIGUSR1, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t watched;
    sigemptyset(&watched);
    for (size_t k = 0; k < sizeof signals / sizeof *signals; k++) sigaddset(&watched, signals[k]);
    signal(SIGUSR1, SIG_DFL);                /* launch has set it to be ignored, and then nobody would see it */
    sigprocmask(SIG_BLOCK, &watched, &a->unblocked);
    TRY(own_memory_make(a->job.n_slots, a->n, &a->job.fd));
    TRY(own_memory_map(&a->job, &a->memory));
    enum status status = start_ranks(a);
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
    const int n_at_first = request.n_ranks + request.spares;
    agent = (struct agent){.n = request.n_ranks, .n_at_first = n_at_first, .words = request.command,
                           .least = request.elastic, .hang_s = request.hang_s, .for_lost = -1,
                           .lost = {-1, -1},
                           .chaos = request.chaos, .chaos_s = request.chaos_s, .looked_s = clock_s(),
                           .job = {.n_slots = n_at_first + request.respawn, .n_nodes = request.nodes,
                                   .n_first = request.n_ranks}};
    if (status == OK) status = run(&agent);
    status_report();
    return status == OK ? agent.code : status_exit_code(status);
}
