/* The ranks of a job without MPI: `trivium launch --comm-transport direct`.
 *
 * Idea. When a process of the job dies, the MPI library ends the job. A job that must survive needs its own transport.
 * It needs few functions (host_transport.h), since collectives are tables of messages: one stream of bytes for each
 * ordered pair of ranks is enough.
 *
 *   ranks     are started by an agent (launch/agent.h), which gives each its slot and memory (job.h)
 *   epochs    when a rank of an elastic job dies, the agent opens the next epoch (membership.h), which ranks see in a
 *             word of the memory. From then until a rank has entered the epoch, its operations end with "changed"
 *   messages  messages.h, over a stream to each other rank: a ring in that memory, or a connection to another host
 *             (streams.c). Sender and receiver must both advance it; every wait does so, and the driver does so
 *             between rows of a step
 *   splits    colours and keys of all ranks are gathered, and each rank computes the same groups; the context of a
 *             communicator is the number of its split, which is enough, as groups of one split share no rank
 *   the end   a rank that has finished writes this into its line of the memory; a rank that ends without that has
 *             failed, with any exit code, and the agent ends the others
 *
 * What breaks: the rings of a rank that neither waits nor advances its messages become full, and its peers wait. */
#include "lib/base/cores.h"
#include "lib/base/log.h"
#include "lib/comm/direct/lent.h"
#include "lib/comm/direct/streams.h"
#include "lib/comm/membership/membership_table.h"
#include "lib/comm/transport/host_transport.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

_Static_assert((int)OWN_OK == (int)TRANSPORT_OK, "codes are the transport's");
_Static_assert(sizeof(struct mail) <= OWN_MAIL_BYTES && (int)N_MAIL_KINDS <= (int)OWN_MAIL_SLOTS, "mail fits");

struct own_communicator { uint64_t context; int size, rank, n_duplicates; int member[]; };   /* member: ranks */

enum { WORLD = 0 };                          /* context of the transport's own messages */
static struct own_self my;
static struct own_messages *messages;
static uint64_t n_splits;
static const double agent_sees_s = 3;        /* the agent sees the end of a rank within this time */

/* Advance this rank's heartbeat. If the heartbeat stops, the agent treats the rank as stopped or stuck (agent.c). */
static void beat(void) {
    atomic_uint *mine = &my.memory->line[my.job.slot].beat;
    atomic_store_explicit(mine, atomic_load_explicit(mine, memory_order_relaxed) + 1, memory_order_relaxed);
}

static bool has_changed(void) {
    beat();
    return atomic_load_explicit(&my.memory->epoch, memory_order_acquire) != my.now.number;
}

/* Report to the agent the rank that this one cannot reach (-1: none), and wait some seconds for a new epoch. @return
 * true: the agent has opened one, so the lost connection is no failure */
static bool changes_without(int lost) {
    const struct timespec nap = {0, 1000000};
    double until_s = clock_s() + agent_sees_s;
    if (lost >= 0) my.memory->line[my.job.slot].lost = own_slot_word(my.now.number, my.now.slot[lost]);
    for (; clock_s() < until_s; nanosleep(&nap, NULL))
        if (has_changed()) return true;
    return false;
}

static bool changes(void) { return changes_without(-1); }

/* A connection to another host ends when its rank dies (possibly before the agent sees the death), when the network
 * breaks it, or when it carries forged data. A new epoch has only new connections. */
static int unless_changed(int code) {
    if (code != OWN_ENDED && code != OWN_FORGED) return code;
    const int lost = own_streams_lost();
    if (!changes_without(lost)) return code;
    if (code == OWN_FORGED)
        log_warn("what rank %d sent was changed on its way, and is not taken: that connection has ended", lost);
    return TRANSPORT_CHANGED;
}

static void version(char *text, size_t bytes) { snprintf(text, bytes, "direct transport"); }

/* ---- messages before there are groups ---- */
static enum status wait_for(struct own_message **message, const char *what) {
    double timeout_s = comm_settings_in_force()->timeout_s, deadline_s = clock_s() + timeout_s;
    for (bool done = false; !done; sched_yield()) {
        int code = unless_changed(own_test(messages, message, &done));
        if (has_changed()) return E_EPOCH;                   /* must be checked after the fetch (streams.c) */
        if (code != OWN_OK) return FAIL(E_COMM, "%s: %s", what, own_code_text(code));
        if (!done && clock_s() > deadline_s)
            return changes_without(-1) ? E_EPOCH
                                       : FAIL(E_TIMEOUT, "%s did not finish within %g s; raise --comm-timeout if it is "
                                              "only slow", what, timeout_s);
    }
    return OK;
}

static enum status pass(bool sending, int peer, void *at, int bytes, const char *what) {
    struct own_message *m;
    int code = sending ? own_send(messages, WORLD, peer, 0, at, bytes, &m)
                       : own_receive(messages, WORLD, peer, 0, at, bytes, &m);
    if (code != OWN_OK) return FAIL(E_COMM, "%s: %s", what, own_code_text(code));
    return wait_for(&m, what);
}

static enum status share_bytes(void *bytes, int n, const char *what) {
    if (my.rank != 0) return pass(false, 0, bytes, n, what);
    for (int r = 1; r < my.now.n; r++) TRY(pass(true, r, bytes, n, what));
    return OK;
}

/* all[r] (n bytes of each rank) is gathered on rank 0, which sends it to all. */
static enum status gather_bytes(void *all, int n, const char *what) {
    char *at = all;
    if (my.rank != 0) TRY(pass(true, 0, at + (size_t)my.rank * (size_t)n, n, what));
    for (int r = 1; r < my.now.n && my.rank == 0; r++) TRY(pass(false, r, at + (size_t)r * (size_t)n, n, what));
    return share_bytes(all, my.now.n * n, what);
}

static enum status meet(const char *what) {
    char here[OWN_MOST_RANKS] = "";
    return gather_bytes(here, 1, what);
}

/* ---- the world ---- */
/* The number of rank r's host: an epoch's hosts are numbered in the order of their first ranks. */
static int host_of(const struct comm_place *place, int r, int n_hosts) {
    for (int q = 0; q < r; q++)
        if (my.now.host[q] == my.now.host[r]) return place->host[q];
    return n_hosts;
}

static enum status find_place(struct comm_place *place) {
    unsigned char mask[CORES_MASK_BYTES];
    int n_hosts = 0;
    cores_mask(mask);                      /* the same for all ranks of a host, which inherit the mask of their agent */
    *place = (struct comm_place){my.rank, my.now.n, 0, 0, cores_count(mask), NULL, my.now.number};
    place->host = calloc((size_t)my.now.n, sizeof *place->host);
    if (!place->host) return FAIL(E_MEMORY, "no memory for the hosts of %d ranks", my.now.n);
    for (int r = 0; r < my.now.n; r++) {
        bool same = my.now.host[r] == my.now.host[my.rank];
        place->host[r] = host_of(place, r, n_hosts);
        n_hosts += place->host[r] == n_hosts;
        place->local_rank += same && r < my.rank;
        place->local_size += same;
    }
    return OK;
}

static void leave(void) {
    own_messages_close(&messages);
    own_streams_close();
}

static enum status open_streams(void) {
    double timeout_s = comm_settings_in_force()->timeout_s, deadline_s = clock_s() + timeout_s;
    TRY(own_streams_open(&my));
    for (; !own_streams_meet(); sched_yield()) {
        if (has_changed()) return E_EPOCH;
        if (clock_s() > deadline_s)
            return changes_without(own_streams_missing())
                       ? E_EPOCH
                       : FAIL(E_TIMEOUT, "not all of %d ranks could be reached within %g s; are they on networks that "
                              "reach each other?", my.now.n, timeout_s);
    }
    messages = own_messages_open(my.now.n, my.rank, own_streams_wires());
    return messages ? OK : FAIL(E_MEMORY, "no memory for the messages of %d ranks", my.now.n);
}

/* Try to read the memory of the other ranks of this host, after all have entered the epoch. */
static void try_to_read(void) {
    const char *why = own_streams_try_to_read();
    if (why && my.rank == 0 && my.now.number == 0) log_info("large messages are copied twice: %s", why);
}

/* ---- what a rank writes for the agent, and for the ranks of later epochs ---- */
static void set_shape(const struct membership_shape *shape) {
    if (my.rank == 0) my.memory->shape = *shape;
}

static int wants_shape(void) {
    return my.memory->shape.n_inner ? 0 : my.job.n_first ? my.job.n_first : my.job.n_slots;
}

static void keep(int64_t number) {
    if (my.rank == 0) my.memory->kept = number;
}
static int64_t kept(void) { return my.memory->kept; }

static void done(int64_t step) {
    if (my.rank == 0) my.memory->done = own_done(my.now.number, step);
}

/* If the members of epoch `from` are no longer kept, its snapshots are overwritten, too, so *from stays none. */
static void members_of_epochs(struct membership *this, struct membership *from) {
    *this = my.now;
    if (my.now.from < 0 || my.now.number - my.now.from >= OWN_EPOCHS) return;
    *from = my.memory->of[my.now.from % OWN_EPOCHS];
}

/* With several hosts the lighthouse decides: it closes this epoch, unless it has opened another one. */
static bool close_epoch(void) {
    const struct timespec nap = {0, 1000000};
    if (!my.job.ip) return own_membership_close(my.memory, my.now.number);
    my.memory->line[my.job.slot].closes = my.now.number + 1;
    while (!has_changed()) nanosleep(&nap, NULL);
    return own_membership_close(my.memory, my.now.number);
}
static bool is_closed(void) { return own_membership_is_closed(my.memory); }

/* ---- the planned end of an epoch ---- */
static bool ends(void) { return my.memory->ends == my.now.number; }

static enum status drain(void) {
    const struct timespec nap = {0, 1000000};
    my.memory->board[my.now.number % OWN_EPOCHS][my.job.slot].drained = 1;
    while (!has_changed()) nanosleep(&nap, NULL);
    return E_EPOCH;
}

/* Ask for relief, or take that back. A request to leave is final. */
static void request(enum member_request what) {
    int other = what == MEMBER_STAYS ? MEMBER_WANTS_RELIEF : MEMBER_STAYS;
    atomic_compare_exchange_strong(&my.memory->line[my.job.slot].request, &other, (int)what);
}

static void on_request_to_leave(int number) {
    (void)number;
    atomic_store(&my.memory->line[my.job.slot].request, MEMBER_LEAVES);
}

static void commit(void) { my.memory->board[my.now.number % OWN_EPOCHS][my.job.slot].committed = 1; }
static bool is_committed(void) { return own_membership_is_committed(my.memory, &my.now); }

/* Enter the newest epoch. A spare waits for an epoch of which it is a member; the program's alarm for the start is off
 * meanwhile. If no epoch ever needs the spare, its agent ends it. */
static enum status enter(struct comm_place *place) {
    const struct timespec nap = {0, 5000000};
    const unsigned alarm_s = alarm(0);
    for (;;) {
        my.now = own_membership_now(my.memory);
        if ((my.rank = membership_place(&my.now, my.job.slot)) >= 0) break;
        beat();
        nanosleep(&nap, NULL);
    }
    alarm(alarm_s);
    n_splits = 0;
    my.memory->line[my.job.slot].reads = OWN_UNKNOWN;
    TRY(find_place(place));
    TRY(open_streams());
    TRY(meet("the start of the job"));
    try_to_read();
    return OK;
}

static enum status world_start(int *argc, char ***argv, struct comm_place *place) {
    bool is_one;
    (void)argc, (void)argv;
    TRY(own_job_find(&my.job, &is_one));
    TRY(own_memory_map(&my.job, &my.memory));
    TRY(own_streams_listen(&my));
    own_lent_allow(&my.memory->line[my.job.slot]);
    signal(SIGUSR2, on_request_to_leave);
    my.memory->line[my.job.slot].state = OWN_RUNNING;
    return enter(place);
}

static enum status world_share(void *bytes, int n) { return share_bytes(bytes, n, "sharing rank 0's text"); }

/* All ranks meet at the end of the job, so that a later death of a rank loses nothing. In a closed job no rank waits
 * for another one. */
static void world_finish(void) {
    enum status met = meet("the end of the job");
    if (met != OK && met != E_EPOCH) status_report();
    signal(SIGUSR2, SIG_IGN);
    my.memory->line[my.job.slot].state = OWN_FINISHED;
    leave();
    own_memory_unmap(my.memory);
    my.memory = NULL;
}

static void world_kill(int code) { _Exit(code); }     /* the agent ends the other ranks */

/* ---- communicators ---- */
struct of_rank { int32_t colour, key; };

static int comes_before(const struct of_rank *of, int a, int b) {
    return of[a].key != of[b].key ? of[a].key < of[b].key : a < b;
}

/* The members are the ranks with this rank's colour, ordered by key and then by rank. */
static void sort_members(struct own_communicator *c, const struct of_rank *of) {
    for (int r = 0; r < my.now.n; r++) {
        if (of[r].colour != of[my.rank].colour) continue;
        int at = c->size++;
        for (; at > 0 && comes_before(of, r, c->member[at - 1]); at--) c->member[at] = c->member[at - 1];
        c->member[at] = r;
    }
    while (c->member[c->rank] != my.rank) c->rank++;
}

static enum status split(int colour, int key, void **communicator, int *size, int *rank) {
    struct of_rank of[OWN_MOST_RANKS] = {0};
    of[my.rank] = (struct of_rank){colour, key};
    if (colour != GROUP_ALL_ALONE) TRY(gather_bytes(of, sizeof *of, "splitting the world into groups"));
    struct own_communicator *c = calloc(1, sizeof *c + (size_t)my.now.n * sizeof *c->member);
    if (!c) return FAIL(E_MEMORY, "no memory for a group of %d ranks", my.now.n);
    c->context = ++n_splits;
    if (colour >= 0) sort_members(c, of);
    else c->size = 1, c->member[0] = my.rank;
    *communicator = c;
    *size = c->size;
    *rank = c->rank;
    return OK;
}

static enum status members(void *communicator, int size, int *out) {
    const struct own_communicator *c = communicator;
    memcpy(out, c->member, (size_t)size * sizeof *out);
    return OK;
}

/* A context has the number of the split in its lower 32 bits, and the number of the duplicate above them. */
static enum status duplicate(void *communicator, void **out) {
    struct own_communicator *c = communicator;
    size_t bytes = sizeof *c + (size_t)my.now.n * sizeof *c->member;
    struct own_communicator *twin = malloc(bytes);
    if (!twin) return FAIL(E_MEMORY, "no memory for a group of %d ranks", c->size);
    memcpy(twin, c, bytes);
    twin->context |= (uint64_t)++c->n_duplicates << 32;
    *out = twin;
    return OK;
}

static void close_communicator(void **communicator) {
    free(*communicator);
    *communicator = NULL;
}

/* ---- memory of the host ---- */
static enum status shared_make(int n_words, struct host_shared *out) {
    if (n_words > OWN_WORDS)
        return FAIL(E_CONFIG, "%d words for emulated links are more than the job's memory has (%d); use fewer ranks",
                    n_words, OWN_WORDS);
    TRY(meet("making memory that ranks share"));
    for (int i = 0; i < n_words && my.rank == 0; i++) my.memory->word[i] = 0;
    out->word = my.memory->word;
    out->window = my.memory;
    return meet("making memory that ranks share");
}

static void shared_free(struct host_shared *shared) { *shared = (struct host_shared){0}; }

/* ---- messages ---- */
static int send_message(void *communicator, const void *at, int n, enum dtype dtype, int to, int tag, void **handle) {
    const struct own_communicator *c = communicator;
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    return own_send(messages, c->context, c->member[to], tag, at, bytes, (struct own_message **)handle);
}

static int receive_message(void *communicator, void *at, int n, enum dtype dtype, int from, int tag, void **handle) {
    const struct own_communicator *c = communicator;
    int64_t bytes = n * (int64_t)dtype_size(dtype);
    return own_receive(messages, c->context, c->member[from], tag, at, bytes, (struct own_message **)handle);
}

/* --chaos: cut a connection to another host if the agent asks for it. */
static void cut_if_told(void) {
    atomic_int *told = &my.memory->line[my.job.slot].cut;
    int slot = own_word_slot(atomic_load_explicit(told, memory_order_relaxed), my.now.number);
    if (slot < 0) return;
    *told = 0;
    int rank = membership_place(&my.now, slot);
    if (rank >= 0) own_streams_cut(rank);
}

static int test_message(void **handle, bool *done) {
    cut_if_told();
    int code = unless_changed(own_test(messages, (struct own_message **)handle, done));
    if (has_changed()) return *handle = NULL, *done = false, TRANSPORT_CHANGED;   /* after the fetch: see streams.c */
    return code;
}

/* ---- mail ---- */
static enum status mail_open(void) { return OK; }
static void mail_close(void) {}
static void mail_send(int to, const struct mail *mail) {
    if (messages) own_mail_send(messages, to, mail->kind, mail, (int)sizeof *mail);
}
static bool mail_receive(int *from, struct mail *mail) {
    if (my.memory) beat();
    return messages && own_mail_receive(messages, from, mail, (int)sizeof *mail);
}

const struct host_transport transport_own = {
    .name = "the direct transport", .version = version, .start = world_start, .share = world_share,
    .finish = world_finish, .kill = world_kill, .split = split, .members = members, .duplicate = duplicate,
    .close = close_communicator, .shared_make = shared_make, .shared_free = shared_free, .send = send_message,
    .receive = receive_message, .test = test_message, .text = own_code_text, .collective = NULL,
    .mail_open = mail_open, .mail_close = mail_close, .mail_send = mail_send, .mail_receive = mail_receive};

const struct membership_table membership_direct = {
    .leave = leave, .enter = enter, .shape = set_shape, .wants_shape = wants_shape, .keep = keep, .kept = kept,
    .done = done, .members = members_of_epochs, .commit = commit, .is_committed = is_committed, .close = close_epoch,
    .is_closed = is_closed, .has_changed = has_changed, .changes = changes, .ends = ends, .drain = drain,
    .request = request};
