/* The agent of one host: starts the ranks and waits for their ends.
 *
 * A rank has ended well if its line of the job's memory is marked as finished (lib/comm/direct/job.h), whatever its
 * exit code: code 75, for example, means "saved, to be resumed". Any other end is a failure, even with code 0, because
 * the rank's peers would wait for it. The agent then names the failed rank to launch and sends the others TERM. A
 * second later it sends KILL, which also ends stopped ranks. If the agent is killed, the kernel kills its ranks.
 *
 * In an elastic job a signal that kills a rank ends its membership, and the agent opens the next epoch (membership.h).
 * The same holds for a late process that withdraws (comm_withdraw). But no process replaces it, because the replacement
 * would withdraw too. Any other failure of a rank ends the job, because the other ranks would fail too, or because a
 * person must look into it. After a member has closed the last epoch (comm_epoch_close) or has finished, a death does
 * no harm, and spares are not needed.
 *
 * Epochs are also opened without a death (agent_membership.c). With --respawn, a dead process is started again as a
 * spare. A rank that does not move (still.h) is killed and then handled like any dead rank. */
#include "launch/agent.h"

#include "launch/agent_job.h"
#include "launch/host_request.h"
#include "launch/launch.h"
#include "launch/next_membership.h"
#include "lib/base/clock.h"
#include "lib/base/program.h"
#include "lib/comm/comm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const double ends_s = 1;              /* from TERM to KILL */
static const double turn_s = 0.1, chaos_turn_s = 0.005;

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

/* --respawn: the new process gets the next slot, not the dead one's (membership.c). */
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

void agent_end_all(struct agent *a) {
    if (a->ending_s > 0) return;
    a->ending_s = clock_s();
    signal_all(a, SIGTERM);
}

/* Print the failed rank; launch reads this line (launch_filter.c). */
static void tell(int rank, int status) {
    char host[64];
    comm_host_name(host, sizeof host);
    if (WIFSIGNALED(status))
        fprintf(stderr, "trivium agent: rank %d on host %s was killed by signal %d (%s)\n", rank, host,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else fprintf(stderr, "trivium agent: rank %d on host %s ended with code %d\n", rank, host, WEXITSTATUS(status));
}

bool agent_should_move(const struct agent *a, int slot) {
    return a->pid[slot] && member_should_move(a->memory, slot);
}

bool agent_has_finished(const struct agent *a, int slot) {
    return atomic_load(&a->memory->line[slot].state) == OWN_FINISHED;
}

bool agent_has_withdrawn(const struct agent *a, int slot) {
    return atomic_load(&a->memory->line[slot].state) == OWN_WITHDRAWN;
}

bool agent_any_has_finished(const struct agent *a) {
    bool any = own_membership_is_closed(a->memory);
    for (int s = 0; s < a->job.n_slots; s++) any |= agent_has_finished(a, s);
    return any;
}

/* ---- ranks that do not move ---- */
static void look_who_moves(struct agent *a) {
    double now_s = clock_s(), gap_s = now_s - a->looked_s;
    if (a->hang_s <= 0 || a->ending_s > 0 || gap_s < turn_s / 2) return;
    a->looked_s = now_s;
    for (int s = 0; s < a->job.n_slots; s++)
        if (still_too_long(&a->still[s], a->memory->line[s].beat, agent_should_move(a, s), now_s, gap_s, a->hang_s))
            still_kill(s, a->pid[s], a->hang_s);
}

/* ---- ends ---- */
/* All members have finished; the processes that are left are spares. */
static bool only_spares_are_left(const struct agent *a) {
    const struct membership now = own_membership_now(a->memory);
    for (int i = 0; i < now.n; i++)
        if (a->pid[now.slot[i]]) return false;
    return true;
}

static void has_ended(struct agent *a, int rank, int status) {
    bool finished = WIFEXITED(status) && agent_has_finished(a, rank);
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    a->pid[rank] = 0;
    a->n_left--;
    if (a->ending_s > 0) return;             /* the agent's own TERM ended it */
    if (a->left[rank]) {
        fprintf(stderr, "trivium: process %d has left\n", rank);
        return;
    }
    const bool withdrawn = WIFEXITED(status) && agent_has_withdrawn(a, rank);
    if (a->least && (WIFSIGNALED(status) || withdrawn) && agent_go_on(a, rank, status)) {
        if (!agent_any_has_finished(a) && !withdrawn) start_another(a);
        return;
    }
    bool first = a->code == 0 && (code || !finished);
    if (first) a->code = code && !withdrawn ? code : 1;
    if (withdrawn)
        fprintf(stderr, "E_COMM agent: process %d has withdrawn, and without it the job cannot go on\n", rank);
    if (first || !finished) tell(rank, status);
    if (!finished) agent_end_all(a);
}

static void look_for_ends(struct agent *a) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        int r = 0;
        while (r < a->job.n_slots && a->pid[r] != pid) r++;
        if (r < a->job.n_slots) has_ended(a, r, status);     /* may start a process, which may have the same pid */
    }
}

static void on_signal(struct agent *a, int number) {
    if (number == SIGUSR1) signal_all(a, SIGUSR1);
    if (number == SIGTERM || number == SIGINT || number == SIGHUP || number == SIGQUIT) {
        if (a->code == 0) a->code = 1;       /* no rank failed (launch.c) */
        agent_end_all(a);
    }
}

static void wait_for_all(struct agent *a, const sigset_t *watched) {
    const struct timespec turn = {0, (long)(1e9 * (a->chaos.seed ? chaos_turn_s : turn_s))};
    for (;;) {
        look_for_ends(a);
        look_who_moves(a);
        agent_look_who_is_lost(a);
        agent_look_ahead(a);
        agent_wreak_chaos(a);
        if (a->n_left == 0) return;
        if (only_spares_are_left(a)) agent_end_all(a);
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
    signal(SIGUSR1, SIG_DFL);                /* launch has set it to SIG_IGN, which would discard it */
    sigprocmask(SIG_BLOCK, &watched, &a->unblocked);
    TRY(own_memory_make(a->job.n_slots, a->n, &a->job.fd));
    TRY(own_memory_map(&a->job, &a->memory));
    a->memory->encrypts = a->encrypts;
    enum status status = start_ranks(a);
    if (status != OK) agent_end_all(a);
    wait_for_all(a, &watched);
    if (a->chaos.seed) chaos_print(&a->chaos.costs, a->chaos.seed, clock_s(), stderr);
    own_memory_unmap(a->memory);
    return status;
}

int agent_main(int argc, char **argv) {
    static struct agent agent;
    struct launch_request request;
    const char *self;
    if (host_is_meant(argc, argv)) return host_main(argc, argv);
    enum status status = program_path(&self);
    if (status == OK) status = launch_parse(argc, argv, &request);
    if (status == OK && request.own && (request.host || request.hostfile)) return lighthouse_main(&request);
    if (status == OK && (!request.own || request.help))
        status = FAIL(E_USAGE, "agent is what launch runs; use trivium launch");
    const int n_at_first = request.n_ranks + request.spares;
    agent = (struct agent){.n = request.n_ranks, .n_at_first = n_at_first, .words = request.command,
                           .least = request.elastic, .hang_s = request.hang_s, .looked_s = clock_s(),
                           .encrypts = request.encrypts,
                           .reconnect = RECONNECT_NOTHING,
                           .chaos = {.seed = request.chaos, .mean_s = request.chaos_s, .hang_s = request.hang_s},
                           .job = {.n_slots = n_at_first + request.respawn, .n_nodes = request.nodes,
                                   .n_first = request.n_ranks}};
    if (status == OK) status = run(&agent);
    status_report();
    return status == OK ? agent.code : status_exit_code(status);
}
