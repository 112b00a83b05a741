/* The members of an elastic job on several hosts.
 *
 * A host is a connection to its agent (host.c). The agent sends the changes that its ranks make in their memory, and
 * the lighthouse writes these into its own copy. So the agent of one host and the lighthouse use the same functions:
 * membership_after chooses the members. Only the signs of a death differ:
 *
 *   an agent reports that a process has ended     the process is dead
 *   an agent's connection ends, or the agent      all processes of the host are dead: the agent has ended or will end,
 *   sends an invalid message                      and the kernel kills its ranks with it
 *   an agent is silent for --heartbeat-timeout    all processes of the host count as dead. But they may live behind a
 *                                                 cut network, where the other hosts are silent
 *
 * Two parts of a job must never continue separately. So an epoch without silent hosts is opened only if the connected
 * hosts have more members of the last epoch than the silent hosts have. The lighthouse closes a silent host's
 * connection and kills the command that started its agent. When the agent sends again, it finds the connection closed,
 * and its ranks end.
 *
 * The deaths of one turn lead to one epoch. With --respawn, a host gets a new process for each one that died there: at
 * once, or after the host's agent has connected again. The new process has a slot of its own.
 *
 * If the lighthouse itself ends, all agents end their ranks; the job resumes from its last checkpoint. */
#define _GNU_SOURCE
#include "launch/lighthouse_job.h"
#include "launch/next_membership.h"

#include "lib/base/clock.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

static const double again_s = 1;             /* from the loss of a host to the restart of its agent */

/* ---- to all ---- */
bool lighthouse_has(const struct lighthouse *l, int h) { return l->host[h].state == HOST_IS_HERE; }

void lighthouse_say(struct lighthouse *l, int but, enum host_kind kind, int slot, int epoch, int64_t value) {
    for (int h = 0; h < l->names.n; h++)
        if (lighthouse_has(l, h) && h != but) host_link_say_word(&l->host[h].link, kind, slot, epoch, value);
}

void lighthouse_end_all(struct lighthouse *l) {
    if (l->ending_s > 0) return;
    l->ending_s = clock_s();
    lighthouse_say(l, -1, HOST_SIGNAL, -1, 0, SIGTERM);
}

void lighthouse_give_up(struct lighthouse *l) {
    status_report();
    if (l->code == 0) l->code = 1;
    lighthouse_end_all(l);
}

/* ---- after a death ---- */
/* Has a rank finished, or is the last epoch closed (comm_epoch_close)? If so, a death does no harm. */
static bool has_finished(const struct lighthouse *l) {
    if (own_membership_is_closed(l->memory)) return true;
    for (int s = 0; s < l->job.n_slots; s++)
        if (atomic_load(&l->memory->line[s].state) == OWN_FINISHED) return true;
    return false;
}

static struct members view_of(struct lighthouse *l) {
    const int n_at_first = l->job.n_slots - l->request->respawn;
    return (struct members){l->memory, l->job.n_slots, n_at_first, l->request->elastic,
                            members_shape(l->memory, l->request->n_ranks), l->alive, l->told, l->left};
}

/* The epoch whose members might go on separately: this one if it is committed, or the one they go back to. */
static const struct membership *who_counts(const struct lighthouse *l, const struct membership *now, bool committed) {
    bool known = now->from >= 0 && now->number - now->from < OWN_EPOCHS;
    return committed || !known ? now : &l->memory->of[now->from % OWN_EPOCHS];
}

/* Count the members that are alive, those that may live on silent hosts, and those that are dead. */
static void count(const struct lighthouse *l, const struct membership *now, int *n_reached, int *n_silent,
                  int *n_dead) {
    *n_reached = *n_silent = *n_dead = 0;
    for (int i = 0; i < now->n; i++) {
        bool silent = l->host[l->host_of[now->slot[i]]].state == HOST_SILENT;
        *n_reached += l->alive[now->slot[i]];
        *n_silent += silent;
        *n_dead += !silent && !l->alive[now->slot[i]];
    }
}

static enum status next_membership_of(struct lighthouse *l, const struct membership *now, struct membership *next) {
    const struct members view = view_of(l);
    const bool committed = own_membership_is_committed(l->memory, now);
    bool alive[OWN_MOST_RANKS];
    const struct membership *counted = who_counts(l, now, committed);
    int n_reached, n_silent, n_dead;
    count(l, counted, &n_reached, &n_silent, &n_dead);
    if (!l->request->elastic)
        return FAIL(E_COMM, "%s; start it again, or give --elastic and spares", l->who);
    if (n_silent >= n_reached && n_silent > 0)
        return FAIL(E_COMM, "%s; %d of %d ranks may live there, and the %d that are reached are not more: both parts "
                    "might go on, so none does. Start it again", l->who, n_silent, counted->n, n_reached);
    members_alive(&view, now, committed, alive);
    *next = membership_after(now, committed, alive, l->job.n_slots, &view.shape);
    if (next->n > 0 && next->n >= l->request->elastic) return OK;
    return FAIL(E_COMM, "%s; " TOO_FEW, l->who, n_reached, next->n, l->request->elastic);
}

/* @return whether the memory has room for epoch `next`; if not, the job ends */
static bool open_membership(struct lighthouse *l, const struct membership *next) {
    if (own_membership_open(l->memory, &l->job, next, NULL) != OK) {
        lighthouse_give_up(l);
        return false;
    }
    const struct membership now = own_membership_now(l->memory);
    for (int h = 0; h < l->names.n; h++)
        if (lighthouse_has(l, h)) host_link_say(&l->host[h].link, HOST_EPOCH, &now, sizeof now);
    return true;
}

/* At the end of a turn with deaths. */
void lighthouse_go_on(struct lighthouse *l) {
    const struct membership now = own_membership_now(l->memory);
    struct membership next;
    bool member = false;
    for (int i = 0; i < now.n; i++) member |= !l->alive[now.slot[i]];
    if (!member || has_finished(l)) {
        if (l->request->elastic) fprintf(stderr, "trivium: %s; nothing is lost\n", l->who);
    } else if (next_membership_of(l, &now, &next) == OK) {
        fprintf(stderr, "trivium: %s; epoch %d goes on with %d ranks\n", l->who, next.number, next.n);
        chaos_died(&l->chaos.costs, clock_s());
        open_membership(l, &next);
    } else {
        lighthouse_give_up(l);
    }
}

/* ---- without a death ---- */
static void say_signal(void *of, int slot, int number) {
    struct lighthouse *l = of;
    host_link_say_word(&l->host[l->host_of[slot]].link, HOST_SIGNAL, slot, 0, number);
}
static void say_cut(void *of, int slot, int other) {
    struct lighthouse *l = of;
    const int32_t epoch = own_membership_now(l->memory).number;      /* ranks in a later epoch ignore the cut */
    host_link_say_word(&l->host[l->host_of[slot]].link, HOST_CUT, slot, epoch, other);
}

static void look_who_is_lost(struct lighthouse *l, const struct members *view) {
    const struct membership now = own_membership_now(l->memory);
    const struct membership_act act = reconnect_look(&l->reconnect, view, clock_s());
    if (act.what == MEMBERS_END) say_signal(l, act.slot, SIGKILL);
    if (act.what != MEMBERS_CHANGE || !open_membership(l, &act.next)) return;
    reconnect_is_open(&l->reconnect, &now, &act);
    chaos_died(&l->chaos.costs, clock_s());
}

static void plan(struct lighthouse *l, const struct members *view) {
    const struct membership now = own_membership_now(l->memory);
    const struct membership_act act = next_membership(view, l->chaos.goes_on_s);
    if (act.what == MEMBERS_DRAIN) lighthouse_say(l, -1, HOST_ENDS, 0, now.number, 0);
    if (act.what == MEMBERS_END) say_signal(l, act.slot, SIGKILL);
    if (act.what == MEMBERS_CHANGE && open_membership(l, &act.next)) next_membership_is_open(view, &now, &act);
}

static void wreak(struct lighthouse *l, const struct members *view) {
    int node[OWN_MOST_RANKS];
    for (int s = 0; s < l->job.n_slots; s++) node[s] = l->host_of[s];
    const struct wreak_hand hand = {l, say_signal, say_cut, node};
    wreak_chaos(&l->chaos, view, has_finished(l), &hand, clock_s());
}

void lighthouse_look_ahead(struct lighthouse *l) {
    if (!l->request->elastic || !l->has_begun || l->ending_s > 0) return;
    const struct members view = view_of(l);
    if (!has_finished(l)) {
        look_who_is_lost(l, &view);
        plan(l, &view);
    }
    wreak(l, &view);
}

/* ---- replacements of dead processes ---- */
static void place(struct lighthouse *l, int h) {
    int s = l->n_started++;
    l->host_of[s] = l->memory->host[s] = (int16_t)h;
    l->alive[s] = true;
    l->n_left++;
    lighthouse_say(l, -1, HOST_PLACE, s, 0, h);
    fprintf(stderr, "trivium: process %d is started as a spare on %s; %d more may be\n", s, l->names.of[h].name,
            l->job.n_slots - l->n_started);
}

void lighthouse_place(struct lighthouse *l) {
    if (!l->has_begun || l->ending_s > 0 || has_finished(l)) return;
    for (int h = 0; h < l->names.n; h++)
        for (; lighthouse_has(l, h) && l->host[h].lost > 0 && l->n_started < l->job.n_slots; l->host[h].lost--)
            place(l, h);
}

/* ---- ends ---- */
static void add_who(struct lighthouse *l, const char *text) {
    size_t n = strlen(l->who);
    snprintf(l->who + n, sizeof l->who - n, "%s%s", n ? "; " : "", text);
}

/* Print the failed rank; launch reads this line (launch_filter.c). */
static void tell(const struct lighthouse *l, int slot, int status) {
    const char *host = l->names.of[l->host_of[slot]].name;
    if (WIFSIGNALED(status))
        fprintf(stderr, "trivium agent: rank %d on host %s was killed by signal %d (%s)\n", slot, host,
                WTERMSIG(status), strsignal(WTERMSIG(status)));
    else fprintf(stderr, "trivium agent: rank %d on host %s ended with code %d\n", slot, host, WEXITSTATUS(status));
}

static bool has_ranks(const struct lighthouse *l, int h) {
    for (int s = 0; s < l->job.n_slots; s++)
        if (l->alive[s] && l->host_of[s] == h) return true;
    return false;
}

/* As in agent.c, a rank has ended well only if its line is marked as finished. */
static void has_ended(struct lighthouse *l, int slot, int status) {
    bool finished = WIFEXITED(status) && atomic_load(&l->memory->line[slot].state) == OWN_FINISHED;
    int code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    char text[128];
    l->alive[slot] = false;
    l->n_left--;
    if (l->ending_s > 0) return;             /* the lighthouse's own TERM ended it */
    if (l->left[slot]) {
        int h = l->host_of[slot];
        fprintf(stderr, "trivium: process %d has left%s%s\n", slot, has_ranks(l, h) ? "" : ", the last one of host ",
                has_ranks(l, h) ? "" : l->names.of[h].name);
        return;
    }
    if (l->request->elastic && WIFSIGNALED(status)) {
        const struct membership now = own_membership_now(l->memory);
        int place = membership_place(&now, slot);
        snprintf(text, sizeof text, "signal %d (%s) has killed %s %d on %.64s", WTERMSIG(status),
                 strsignal(WTERMSIG(status)), place < 0 ? "spare" : "rank", place < 0 ? slot : place,
                 l->names.of[l->host_of[slot]].name);
        l->host[l->host_of[slot]].lost++;
        add_who(l, text);
        return;
    }
    if (l->request->elastic && atomic_load(&l->memory->line[slot].state) == OWN_WITHDRAWN) {
        snprintf(text, sizeof text, "process %d on %.64s has withdrawn", slot, l->names.of[l->host_of[slot]].name);
        add_who(l, text);
        return;
    }
    bool first = l->code == 0 && (code || !finished);
    if (first) l->code = code ? code : 1;
    if (first || !finished) tell(l, slot, status);
    if (!finished) lighthouse_end_all(l);
}

void lighthouse_lose(struct lighthouse *l, int h, enum host_state how, const char *why) {
    char text[512];
    bool had_ranks = l->has_begun && has_ranks(l, h);
    l->host[h].state = how;
    host_link_close(&l->host[h].link);
    if (l->host[h].starter > 0 && !l->host[h].has_ended) kill(l->host[h].starter, SIGKILL);
    for (int s = 0; s < l->job.n_slots && l->has_begun; s++) {
        if (l->host_of[s] != h || !l->alive[s]) continue;
        l->alive[s] = false;
        l->n_left--;
        l->host[h].lost++;
    }
    l->host[h].is_again = false;
    if (l->host[h].starter > 0 && l->n_started < l->job.n_slots) l->host[h].again_s = clock_s() + again_s;
    snprintf(text, sizeof text, "host %.64s is lost (%s)", l->names.of[h].name, why);
    if (had_ranks && l->ending_s == 0) add_who(l, text);
    if (l->has_begun || l->ending_s > 0) return;
    (void)FAIL(E_COMM, "%s before the job began; see what it says", text);
    lighthouse_give_up(l);
}

/* ---- messages of the agents ---- */
static bool take_shape(struct lighthouse *l, const char *body) {
    struct membership_shape shape;
    memcpy(&shape, body, sizeof shape);
    bool right = shape.n_inner >= 1 && shape.n_outer >= 1 && shape.n_inner <= OWN_MOST_RANKS &&
                 shape.n_outer <= OWN_MOST_RANKS && shape.batch >= 0 && shape.micro >= 0 &&
                 own_membership_now(l->memory).n % (shape.n_inner * shape.n_outer) == 0;
    if (right) l->memory->shape = shape;
    return right;
}

/* Slot's rank has committed. Send `committed` to the hosts only after all members have committed, because ranks then
 * discard the state that they could go back to. */
static void is_committed(struct lighthouse *l, int slot, int32_t number) {
    const struct membership now = own_membership_now(l->memory);
    if (number != now.number) return;        /* a newer epoch is open */
    l->memory->board[number % OWN_EPOCHS][slot].committed = 1;
    if (l->committed_of == number || !own_membership_is_committed(l->memory, &now)) return;
    l->committed_of = number;
    lighthouse_say(l, -1, HOST_COMMITTED, 0, number, 0);
}

static void has_address(struct lighthouse *l, int h, int slot, int64_t address) {
    l->memory->address[slot] = (uint64_t)address;            /* for hosts that connect later */
    lighthouse_say(l, h, HOST_ADDRESS, slot, 0, address);
}

/* Either all ranks of an epoch receive `closed`, or all receive the next epoch. */
static void closes(struct lighthouse *l, int32_t number) {
    if (!own_membership_is_closed(l->memory) && own_membership_close(l->memory, number))
        lighthouse_say(l, -1, HOST_CLOSED, 0, number, 0);
}

static void is_drained(struct lighthouse *l, int slot, int32_t number) {
    if (number == own_membership_now(l->memory).number) l->memory->board[number % OWN_EPOCHS][slot].drained = 1;
}

/* A request to leave cannot be withdrawn. @return whether `what` is a request */
static bool takes_request(struct lighthouse *l, int slot, int64_t what) {
    if (what != MEMBER_STAYS && what != MEMBER_WANTS_RELIEF && what != MEMBER_LEAVES) return false;
    if (l->memory->line[slot].request != MEMBER_LEAVES) l->memory->line[slot].request = (int)what;
    return true;
}

/* Readers ignore a loss in another epoch (own_word_slot). */
static bool has_lost(struct lighthouse *l, int slot, int64_t lost) {
    if (lost < 0 || lost > INT32_MAX) return false;
    l->memory->line[slot].lost = (int)lost;
    return true;
}

/* @return whether host h may send this message */
static bool take(struct lighthouse *l, int h, const struct host_message *m) {
    if (m->kind == HOST_ALIVE) return true;
    if (m->kind == HOST_HERE || !l->has_begun) return false;
    if (m->kind == HOST_SHAPE) return take_shape(l, m->body);
    const struct host_word word = host_link_word(m);
    if (m->kind == HOST_KEPT || m->kind == HOST_DONE) {
        atomic_store(m->kind == HOST_KEPT ? &l->memory->kept : &l->memory->done, word.value);
        if (m->kind == HOST_KEPT) lighthouse_say(l, h, HOST_KEPT, 0, 0, word.value);
        return true;
    }
    if (word.slot < 0 || word.slot >= l->job.n_slots) return false;
    if (l->host_of[word.slot] != h || !l->alive[word.slot]) return false;
    if (m->kind == HOST_ADDRESS) has_address(l, h, word.slot, word.value);
    else if (m->kind == HOST_COMMITTED) is_committed(l, word.slot, word.epoch);
    else if (m->kind == HOST_CLOSES) closes(l, word.epoch);
    else if (m->kind == HOST_DRAINED) is_drained(l, word.slot, word.epoch);
    else if (m->kind == HOST_REQUEST) return takes_request(l, word.slot, word.value);
    else if (m->kind == HOST_LOST) return has_lost(l, word.slot, word.value);
    else if (m->kind == HOST_ENDED) has_ended(l, word.slot, (int)word.value);
    else if (word.value >= OWN_STARTING && word.value <= OWN_WITHDRAWN)
        atomic_store(&l->memory->line[word.slot].state, (int)word.value);
    else return false;
    return true;
}

void lighthouse_hear(struct lighthouse *l, int h, double now_s) {
    struct a_host *host = &l->host[h];
    struct host_message m;
    if (host->state != HOST_IS_HERE) return;
    host_link_step(&host->link, now_s);
    while (host_link_next(&host->link, &m))
        if (!take(l, h, &m) && !host->link.broken) host->link.broken = "it has said what it may not";
    if (host->link.broken) {
        lighthouse_lose(l, h, HOST_GONE, host->link.broken);
    } else if (now_s > host->link.heard_s + l->request->heartbeat_s) {
        char why[64];
        snprintf(why, sizeof why, "no sign of it for the %g s of --heartbeat-timeout", l->request->heartbeat_s);
        lighthouse_lose(l, h, HOST_SILENT, why);
    }
}
