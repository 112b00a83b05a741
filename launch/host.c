/* The agent of one of several hosts: its ranks, and their memory.
 *
 *   lighthouse --- job, epoch, others' addresses ... ---> this host's own_memory ---> ranks
 *              <-- state, address, committed, ended ...  ---                         <---
 *
 * The agent reads its ranks' memory every few milliseconds and sends the changes; it stores the lighthouse's messages
 * at once. So ranks see one memory across all hosts, with two rules. First, only the lighthouse decides that *all*
 * ranks have committed: a rank sees an epoch as committed only after the lighthouse does. Otherwise the rank might
 * discard the state that the next epoch goes back to. Second, the agent sends a process's last changes before its end.
 *
 * Without the lighthouse, ranks cannot learn the members, so this host's ranks end. They end at once when the
 * connection ends, and after GIVE_UP times --heartbeat-timeout without a message, when it has long counted as dead. */
#include "launch/agent.h"

#include "launch/host_door.h"
#include "launch/host_job.h"
#include "launch/host_request.h"
#include "launch/hosts.h"
#include "launch/next_membership.h"
#include "launch/agent_job.h"
#include "lib/base/clock.h"
#include "lib/base/cores.h"
#include "lib/base/option.h"
#include "lib/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum { GIVE_UP = 10, TURN_MS = 5 };
static const double ends_s = 1;              /* from TERM to KILL */
static const double comes_s = 60;            /* to wait for a lighthouse that starts later */
static const double looks_s = 0.1;           /* between two checks of the beats */

struct slot { pid_t pid; struct still still; int state, request, lost, closes, committed_of, drained_of;
              uint64_t address; };
struct host {
    struct host_request asked;
    struct host_link link;
    struct own_job job;
    struct own_memory *memory;
    struct host_texts texts;
    struct slot of[OWN_MOST_RANKS];          /* this host's slots, with the values that were sent last */
    struct membership_shape shape, shape_before;  /* the shape that was sent last; the shape at the last turn */
    int64_t kept, done;
    int n_left, n_started, code;
    sigset_t unblocked;                      /* signals that ranks start with */
    bool is_over;
    double ending_s, looked_s;
};

/* ---- start ---- */
/* If the host's name is an address, the agent and its ranks connect from that address; otherwise from the address of
 * the route to the lighthouse. */
static enum status come_in(struct host *h) {
    uint32_t from = 0;
    struct sealed wire;
    unsigned a, b, c, d;
    char rest;
    const struct host_request *asked = &h->asked;
    if (sscanf(asked->name, "%u.%u.%u.%u%c", &a, &b, &c, &d, &rest) == 4) TRY(host_address_find(asked->name, &from));
    TRY(host_door_knock(asked->meet, from, asked->secret, comes_s, &wire));
    TRY(host_link_open(&h->link, &wire, false));
    if (from) h->job.ip = from;
    else TRY(host_seen_from(asked->meet.ip, &h->job.ip));
    host_link_say(&h->link, HOST_HERE, asked->name, strlen(asked->name));
    return OK;
}

/* Wait for the job, or for `over`, because launch may be interrupted before all hosts are connected. */
static enum status wait_for_job(struct host *h) {
    struct host_message m;
    for (struct pollfd p = {h->link.fd, POLLIN, 0};; poll(&p, 1, 100)) {
        host_link_step(&h->link, clock_s());
        if (host_link_next(&h->link, &m)) {
            if (m.kind == HOST_JOB) return host_job_read(&m, &h->texts);
            if (m.kind == HOST_OVER) return h->is_over = true, h->code = (int)host_link_word(&m).value, OK;
            if (m.kind != HOST_ALIVE && m.kind != HOST_SIGNAL)       /* there are no ranks to signal yet */
                return FAIL(E_COMM, "the lighthouse has said \"%s\" before the job", host_rows[m.kind].name);
        } else if (h->link.broken) {
            if (h->link.wire.forged)
                return FAIL(E_COMM, "host %s cannot trust what comes from the lighthouse: %s; find out which machine "
                            "between the two changes their messages", h->asked.name, h->link.broken);
            return FAIL(E_COMM, "the lighthouse has sent host %s away: launch's --host does not name it, or it is "
                        "there already", h->asked.name);
        }
    }
}

static bool is_mine(const struct host *h, int slot) {
    return slot >= h->texts.job.mine_from && slot < h->texts.job.n_slots && h->texts.job.host[slot] == h->texts.job.me;
}

static int n_here(const struct host *h) {
    int n = 0;
    for (int s = 0; s < h->texts.job.n_slots; s++) n += is_mine(h, s);
    return n;
}

static void set_environment(struct host *h) {
    char threads[16];
    for (int i = 0; i < h->texts.job.n_settings; i++) putenv(h->texts.settings[i]);
    int each = (int)cores_allowed() / (n_here(h) ? n_here(h) : 1);
    snprintf(threads, sizeof threads, "%d", each > 1 ? each : 1);
    setenv("OMP_NUM_THREADS", threads, 0);
    unsetenv("TRIVIUM_MEET");
    int nothing = open("/dev/null", O_RDONLY);               /* standard input carried the secret */
    if (nothing >= 0) dup2(nothing, STDIN_FILENO);
    if (nothing > STDERR_FILENO) close(nothing);
}

static enum status make_memory(struct host *h) {
    const struct host_job *job = &h->texts.job;
    h->job.n_slots = job->n_slots;
    h->job.n_first = job->n;
    TRY(own_memory_make(job->n_slots, job->n, &h->job.fd));
    TRY(own_memory_map(&h->job, &h->memory));
    memcpy(h->memory->secret, h->asked.secret, sizeof h->asked.secret);
    h->memory->encrypts = job->encrypts;
    memcpy(h->memory->host, job->host, sizeof job->host);
    struct membership first = own_membership_now(h->memory);
    return own_membership_open(h->memory, &h->job, &first, NULL); /* reopen epoch 0 with the slots' hosts */
}

static enum status start_rank(struct host *h, int s) {
    pid_t self = getpid();
    struct own_job job = h->job;
    job.slot = s;
    h->of[s].committed_of = h->of[s].drained_of = -1;
    h->of[s].pid = fork();
    if (h->of[s].pid == 0) rank_become(&job, h->n_started, h->texts.words, &h->unblocked, self);
    if (h->of[s].pid < 0) {
        h->of[s].pid = 0;
        return FAIL(E_IO, "cannot start rank %d: %s; close other programs or raise `ulimit -u`", s, strerror(errno));
    }
    h->n_started++;
    h->n_left++;
    return OK;
}

static enum status start_ranks(struct host *h) {
    if (chdir(h->texts.texts[0]) != 0)
        return FAIL(E_CONFIG, "host %s has no folder %s: %s; start launch in one that all hosts have", h->asked.name,
                    h->texts.texts[0], strerror(errno));
    for (int s = 0; s < h->job.n_slots; s++)
        if (is_mine(h, s)) TRY(start_rank(h, s));
    return OK;
}

/* ---- up: from the ranks' memory to the lighthouse ---- */
static void say_of_slot(struct host *h, int s) {
    struct slot *said = &h->of[s];
    int32_t now = own_membership_now(h->memory).number;
    struct own_line *line = &h->memory->line[s];
    int state = line->state, request = line->request, lost = line->lost, closes = line->closes;
    const struct own_board *board = &h->memory->board[now % OWN_EPOCHS][s];
    uint64_t address = atomic_load(&h->memory->address[s]);
    if (address != said->address) host_link_say_word(&h->link, HOST_ADDRESS, s, 0, (int64_t)(said->address = address));
    if (state != said->state) host_link_say_word(&h->link, HOST_STATE, s, 0, said->state = state);
    if (request != said->request) host_link_say_word(&h->link, HOST_REQUEST, s, 0, said->request = request);
    if (lost != said->lost) host_link_say_word(&h->link, HOST_LOST, s, 0, said->lost = lost);
    if (closes != said->closes) host_link_say_word(&h->link, HOST_CLOSES, s, (said->closes = closes) - 1, 0);
    if (said->committed_of != now && board->committed)
        host_link_say_word(&h->link, HOST_COMMITTED, s, said->committed_of = now, 0);
    if (said->drained_of != now && board->drained)
        host_link_say_word(&h->link, HOST_DRAINED, s, said->drained_of = now, 0);
}

/* Send the shape when it has not changed for a turn, because rank 0 may be writing it now. */
static void say_shape(struct host *h) {
    const struct membership_shape shape = h->memory->shape;
    bool settled = memcmp(&shape, &h->shape_before, sizeof shape) == 0;
    h->shape_before = shape;
    if (!settled || memcmp(&shape, &h->shape, sizeof shape) == 0) return;
    h->shape = shape;
    host_link_say(&h->link, HOST_SHAPE, &shape, sizeof shape);
}

static void say_what_is_new(struct host *h) {
    int64_t kept = h->memory->kept, done = h->memory->done;
    for (int s = 0; s < h->job.n_slots; s++)
        if (h->of[s].pid) say_of_slot(h, s);
    if (kept != h->kept) host_link_say_word(&h->link, HOST_KEPT, 0, 0, h->kept = kept);
    if (done != h->done) host_link_say_word(&h->link, HOST_DONE, 0, 0, h->done = done);
}

static void look_for_ends(struct host *h) {
    int status;
    for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;)
        for (int s = 0; s < h->job.n_slots; s++) {
            if (h->of[s].pid != pid) continue;
            say_what_is_new(h);              /* the process's last changes, before its end */
            host_link_say_word(&h->link, HOST_ENDED, s, 0, status);
            h->of[s].pid = 0;
            h->n_left--;
        }
}

static void kill_who_hangs(struct host *h) {
    double now_s = clock_s(), gap_s = now_s - h->looked_s, hang_s = h->texts.job.hang_s;
    if (hang_s <= 0 || h->ending_s > 0 || gap_s < looks_s) return;
    h->looked_s = now_s;
    for (int s = 0; s < h->job.n_slots; s++) {
        const struct own_line *line = &h->memory->line[s];
        bool should = h->of[s].pid && member_should_move(h->memory, s);
        if (still_too_long(&h->of[s].still, line->beat, should, now_s, gap_s, hang_s))
            still_kill(s, h->of[s].pid, hang_s);
    }
}

/* ---- down: from the lighthouse to the ranks' memory ---- */
static void signal_all(const struct host *h, int number) {
    for (int s = 0; s < h->job.n_slots; s++)
        if (h->of[s].pid) kill(h->of[s].pid, number);
}

static void end_all(struct host *h) {
    if (h->ending_s > 0) return;
    h->ending_s = clock_s();
    signal_all(h, SIGTERM);
}

static bool is_elsewhere(const struct host *h, int slot) {
    return slot >= 0 && slot < h->job.n_slots && !is_mine(h, slot);
}

/* Mark the other hosts' members as committed; this host's ranks have marked themselves. */
static void all_have_committed(struct host *h, int32_t number) {
    const struct membership now = own_membership_now(h->memory);
    for (int i = 0; i < now.n && now.number == number; i++)
        if (is_elsewhere(h, now.slot[i])) h->memory->board[number % OWN_EPOCHS][now.slot[i]].committed = 1;
}

/* A host that connects again receives only the last epochs, because none of its new ranks saw an earlier one.
 * @return whether `body` is a valid epoch of this job, and the memory has room for it */
static bool open_membership(struct host *h, const char *body) {
    struct membership next;
    memcpy(&next, body, sizeof next);
    const int32_t now = own_membership_now(h->memory).number;
    bool right = next.number > now && next.from < next.number && next.n >= 1 && next.n <= h->job.n_slots;
    for (int i = 0; right && i < next.n; i++) right = next.slot[i] >= 0 && next.slot[i] < h->job.n_slots;
    if (right && h->n_started == 0) h->memory->epoch = next.number - 1;
    return right && own_membership_open(h->memory, &h->job, &next, &right) == OK && right;
}

/* @return whether the message is valid; if the process cannot be started, report its end to the lighthouse */
static bool place(struct host *h, struct host_word word) {
    if (word.slot < 0 || word.slot >= h->job.n_slots || h->of[word.slot].pid) return false;
    h->texts.job.host[word.slot] = h->memory->host[word.slot] = (int16_t)word.value;
    if (!is_mine(h, word.slot) || start_rank(h, word.slot) == OK) return true;
    status_report();
    host_link_say_word(&h->link, HOST_ENDED, word.slot, 0, SIGKILL);
    return true;
}

static bool pass_signal(struct host *h, int slot, int64_t number) {
    if (slot == -1 && number == SIGTERM) return end_all(h), true;
    if (slot == -1) return signal_all(h, SIGUSR1), true;
    if (!is_mine(h, slot) || (number != SIGKILL && number != SIGSTOP && number != SIGCONT)) return false;
    if (h->of[slot].pid) kill(h->of[slot].pid, (int)number);
    return true;
}

static bool obey(struct host *h, const struct host_message *m) {
    if (m->kind == HOST_EPOCH) return open_membership(h, m->body);
    if (m->kind == HOST_ALIVE) return true;
    if (m->kind == HOST_JOB) return false;
    const struct host_word word = host_link_word(m);
    switch (m->kind) {
    case HOST_ADDRESS:
        if (!is_elsewhere(h, word.slot)) return false;
        atomic_store(&h->memory->address[word.slot], (uint64_t)word.value);
        return true;
    case HOST_COMMITTED: return all_have_committed(h, word.epoch), true;
    case HOST_ENDS:
        h->memory->ends = word.epoch;        /* readers ignore an older epoch */
        return true;
    case HOST_CLOSED: return own_membership_close(h->memory, word.epoch);
    case HOST_PLACE: return place(h, word);
    case HOST_KEPT:
        h->memory->kept = h->kept = word.value;
        return true;
    case HOST_SIGNAL: return pass_signal(h, word.slot, word.value);
    case HOST_CUT:
        if (!is_mine(h, word.slot) || !is_elsewhere(h, (int)word.value)) return false;
        h->memory->line[word.slot].cut = own_slot_word(word.epoch, (int)word.value);
        return true;
    default:
        h->is_over = true;
        h->code = (int)word.value;
        return true;
    }
}

static void hear(struct host *h) {
    struct host_message m;
    double now_s = clock_s();
    host_link_step(&h->link, now_s);
    while (host_link_next(&h->link, &m))
        if (!obey(h, &m) && !h->link.broken) h->link.broken = "it has said what this job does not know";
    if (!h->link.broken && now_s > h->link.heard_s + GIVE_UP * h->texts.job.lost_s) h->link.broken = "it gives no sign";
    if (!h->link.broken || h->is_over || h->ending_s > 0) return;
    fprintf(stderr, "trivium agent: host %s has lost the lighthouse (%s), and its ranks end\n", h->asked.name,
            h->link.broken);
    h->code = 1;
    end_all(h);
}

/* ---- together ---- */
static void on_signals(struct host *h, int signals) {
    for (struct signalfd_siginfo x; read(signals, &x, sizeof x) == (ssize_t)sizeof x;) {
        if (x.ssi_signo == SIGCHLD) continue;            /* look_for_ends follows */
        if (x.ssi_signo == SIGUSR1 || x.ssi_signo == SIGUSR2) {      /* USR2 asks all ranks of this host to leave */
            signal_all(h, (int)x.ssi_signo);
        } else {                                         /* this host leaves; the others may go on */
            h->is_over = true;
            h->code = 128 + (int)x.ssi_signo;
            end_all(h);
        }
    }
}

static void wait_for_all(struct host *h, int signals) {
    while (h->n_left > 0 || !(h->is_over || h->link.broken)) {
        struct pollfd p[] = {{h->link.broken ? -1 : h->link.fd, POLLIN, 0}, {signals, POLLIN, 0}};
        if (host_link_has_more(&h->link)) p[0].events |= POLLOUT;
        poll(p, 2, TURN_MS);
        on_signals(h, signals);
        look_for_ends(h);
        say_what_is_new(h);
        kill_who_hangs(h);
        say_shape(h);
        hear(h);
        if (h->ending_s > 0 && clock_s() > h->ending_s + ends_s) signal_all(h, SIGKILL);
    }
}

static int watch_signals(sigset_t *before) {
    static const int signals[] = {SIGCHLD, SIGUSR1, SIGUSR2, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
    sigset_t watched;
    sigemptyset(&watched);
    for (size_t k = 0; k < sizeof signals / sizeof *signals; k++) sigaddset(&watched, signals[k]);
    signal(SIGUSR1, SIG_DFL);                /* launch has set it to SIG_IGN, which would discard it */
    sigprocmask(SIG_BLOCK, &watched, before);
    return signalfd(-1, &watched, SFD_NONBLOCK | SFD_CLOEXEC);
}

static enum status run(struct host *h) {
    TRY(come_in(h));
    TRY(wait_for_job(h));
    if (h->is_over) return OK;
    set_environment(h);
    TRY(make_memory(h));
    int signals = watch_signals(&h->unblocked);
    if (signals < 0) return FAIL(E_IO, "cannot watch for signals: %s", strerror(errno));
    enum status status = start_ranks(h);
    h->looked_s = clock_s();
    if (status == OK) wait_for_all(h, signals);
    host_link_flush(&h->link, ends_s);
    signal_all(h, SIGKILL);
    close(signals);
    own_memory_unmap(h->memory);
    return status;
}

int host_main(int argc, char **argv) {
    static struct host host;
    const char *self;
    host = (struct host){.link.fd = -1};
    if (argc > 0 && options_ask_for_help(1, argv)) return fputs(host_help, stdout), 0;
    enum status status = program_path(&self);
    if (status == OK) status = host_request_read(argc, argv, &host.asked);
    if (status == OK) status = run(&host);
    host_link_close(&host.link);
    status_report();
    return status == OK ? host.code : status_exit_code(status);
}
