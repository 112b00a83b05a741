/* Collectives on host memory by tables of hops (hops.h), over the transport's messages: a backend.
 *
 * Why not MPI's collectives. The nonblocking ones reduce along a tree to one rank, and broadcast from there. For a
 * buffer of S bytes on n ranks that sends S log2(n) bytes where S (n-1)/n are enough, does all additions on one rank,
 * and copies all data into extra buffers. MPI's messages are also unknown. With tables every rank can compute the
 * messages of all ranks beforehand, to the byte.
 *
 * Overlap. Rows that depend on no other row are sent at the start. Within a machine a send only announces the data: the
 * receiver copies them out of the sender's memory, even while the sender computes.
 *
 * Matching. All messages of a collective have one tag, made from its number in its group; messages between two ranks
 * are received in the order in which they were sent (MPI 3.1, section 3.5), which is the order of both tables.
 *
 * Memory. Sums need memory in addition to the caller's buffers (hop_walk_bytes), and one sum per bucket may be in
 * flight. The sums of a group begin in the order of their calls, and a sum waits while older ones use HOP_MEMORY_BYTES.
 * The oldest sum never waits, on any rank, so the queue moves; calls that need no memory overtake it.
 *
 * What breaks: a rank that waits for one collective must advance all others, too, or two ranks wait for each other's
 * next rows (comm_hops_progress).
 *
 * Measured on two ranks of one machine, 64 MiB: reduce_scatter 57 ms by MPI, all_gather 14, all_reduce 113; the
 * messages alone, half of the bytes each way, 7.5 ms. */
#include "lib/comm/hops/comm_hops.h"

#include "lib/base/integer.h"
#include "lib/comm/membership/comm_membership.h"
#include "lib/comm/hops/comm_links.h"
#include "lib/comm/hops/comm_links_private.h"
#include "lib/comm/transport/host_transport.h"
#include "lib/comm/comm_reduce.h"
#include "lib/comm/hops/comm_rules.h"
#include "lib/comm/hops/hop_rows.h"
#include "lib/comm/hops/hop_walk.h"
#include "lib/comm/flight/flight.h"

#include <stdlib.h>

enum { FIRST_STAMP_TAG = 2 * (COMM_TAG_MAX + 1), FAILED_HERE = -1 };

struct hops {
    struct hops *next;
    struct group *group;
    enum comm_op op;
    enum dtype dtype;
    enum comm_reduction reduction;
    int tag;
    int64_t flight;              /* the number of its row in the flight record */
    struct hop_table table;      /* moves into the walk when it begins */
    struct hop_buffers buffers;
    struct hop_walk *walk;       /* NULL: it waits for memory */
    int64_t bytes;               /* hop_walk_bytes */
    void *memory;
    bool done;
    int failed;                  /* the transport's code, kept until the next test */
    uint8_t barrier;
};

static struct hops *first;       /* of those in flight */

/* ---- which algorithm ---- */

/* A barrier is a sum of one byte whose value is not used. */
static struct hop_shape shape_of(const struct group *group, const struct comm_call *call) {
    int64_t element = (int64_t)dtype_size(call->dtype);
    bool barrier = call->op == COMM_BARRIER;
    return (struct hop_shape){barrier ? COMM_ALL_REDUCE : call->op, group->size, call->peer, barrier ? 1 : call->count,
                              HOP_SEGMENT_BYTES / element, HOP_LINE_BYTES / element, group->node};
}

static bool fixed_sums;          /* comm_fix_sums */
void comm_fix_sums(bool on) { fixed_sums = on; }

/* The algorithm of a sum whose order of additions is fixed, neighbors first; NULL: no such sum. A small sum takes the
 * fewest steps. */
static const struct comm_algorithm *fixed_sum(const struct comm_call *call, const struct hop_shape *shape) {
    enum { SMALL_BYTES = 16 << 10 };
    bool small = hop_shape_whole(shape) * (int64_t)dtype_size(call->dtype) < SMALL_BYTES;
    bool adds = (call->op == COMM_ALL_REDUCE || call->op == COMM_REDUCE_SCATTER) && call->reduction == COMM_SUM;
    if (!fixed_sums || !adds) return NULL;
    return small && call->op == COMM_ALL_REDUCE ? &hops_doubling : &hops_halving_near;
}

enum status comm_hops_choose(const struct group *group, const struct comm_call *call,
                             const struct comm_algorithm **out) {
    *out = NULL;
    bool library = comm_has_library();
    if (group->size == 1 || (library && call->op == COMM_BARRIER)) return OK;
    const struct hop_shape shape = shape_of(group, call);
    if (call->op == COMM_BARRIER) return *out = &hops_doubling, OK;
    *out = fixed_sum(call, &shape);
    if (*out && comm_algorithm_fits(*out, &shape)) return OK;
    const struct hop_links *links = comm_links_emulated();
    bool hops_only = links || (!library && !comm_is_message(call->op));
    return comm_rule_choose(&comm_settings_in_force()->rule[group->axis], &shape, call->dtype, hops_only, links,
                            group->name, out);
}

bool comm_world_suits(int n) {
    static const enum comm_op ops[] = {COMM_ALL_REDUCE, COMM_ALL_GATHER, COMM_BROADCAST};
    const struct comm_algorithm *chosen;
    const int axis = group_world()->axis;
    bool suits = true;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        const struct hop_shape shape = {.op = ops[i], .n = n, .count = n};
        suits &= comm_rule_choose(&comm_settings_in_force()->rule[axis], &shape, UINT8, true, NULL, "world",
                                  &chosen) == OK;
        status_clear();
    }
    return suits;
}

/* ---- messages ---- */
static enum status said(struct hops *x, int code) {
    if (code == TRANSPORT_OK) return OK;
    x->failed = code;
    return E_COMM;
}

enum message { DATA, STAMP };   /* on an emulated link a message has a second message, its stamp */

static enum status start_message(struct hops *x, enum message what, int peer, void *at, int n,
                                 struct hop_ticket *ticket) {
    const struct host_transport *transport = comm_host_transport();
    void *communicator = x->group->communicator, **handle = &ticket->handle[what];
    enum dtype dtype = what == STAMP ? FP64 : x->dtype;
    int tag = what == STAMP ? x->tag + FIRST_STAMP_TAG : x->tag;
    return said(x, ticket->sending ? transport->send(communicator, at, n, dtype, peer, tag, handle)
                                   : transport->receive(communicator, at, n, dtype, peer, tag, handle));
}

static int elements(const struct hops *x, int64_t bytes) { return (int)(bytes / (int64_t)dtype_size(x->dtype)); }

static enum status message_expect(void *self, int peer, int64_t bytes, struct hop_ticket *ticket) {
    struct hops *x = self;
    if (!comm_links_emulated()) return OK;
    links_describe(ticket, x->group, peer, bytes);
    TRY(start_message(x, STAMP, peer, &ticket->stamp, 1, ticket));
    return links_expect(ticket);
}

static enum status message_send(void *self, int peer, const void *at, int64_t bytes, struct hop_ticket *ticket) {
    struct hops *x = self;
    group_count_message(x->group, x->op, peer, bytes);
    ticket->sending = true;
    if (comm_links_emulated()) {
        links_describe(ticket, x->group, peer, bytes);
        links_send(ticket);
        TRY(start_message(x, STAMP, peer, &ticket->stamp, 1, ticket));
    }
    return start_message(x, DATA, peer, (void *)(uintptr_t)at, elements(x, bytes), ticket);
}

static enum status message_receive(void *self, int peer, void *at, int64_t bytes, struct hop_ticket *ticket) {
    return start_message(self, DATA, peer, at, elements(self, bytes), ticket);
}

static enum status has_ended(struct hops *x, void **handle, bool *ended) {
    *ended = !*handle;
    return *handle ? said(x, comm_host_transport()->test(handle, ended)) : OK;
}

static enum status message_done(void *self, struct hop_ticket *ticket, bool *done) {
    TRY(has_ended(self, &ticket->handle[DATA], done));
    if (!*done || !comm_links_emulated()) return OK;
    if (ticket->sending) TRY(has_ended(self, &ticket->handle[STAMP], done));
    *done = *done && (ticket->sending ? links_has_left(ticket) : links_is_there(ticket));
    return OK;
}

static enum status look_for_stamps(struct hops *x) {
    int n;
    struct hop_ticket **expected = links_expected(&n);
    for (int i = 0; i < n; i++)
        if (!expected[i]->stamped) TRY(has_ended(x, &expected[i]->handle[STAMP], &expected[i]->stamped));
    links_land();
    return OK;
}

static enum status message_combine(void *self, void *terms, void *into, int64_t n) {
    const struct hops *x = self;
    comm_reducer *reduce = comm_reducer_of(x->dtype, x->reduction);
    if (!reduce) return FAIL(E_INTERNAL, "%s of %s", comm_op_name(x->op), dtype_name(x->dtype));
    reduce(terms, into, n);
    return OK;
}

static const struct hop_transport by_messages = {message_expect, message_send, message_receive,
                                                  message_done, message_combine};

/* ---- a collective in flight ---- */

/* A collective that needs no memory never waits. Others wait for older collectives of their group. */
static bool may_begin(const struct hops *x) {
    if (x->bytes == 0) return true;
    for (const struct hops *y = first; y != x; y = y->next)
        if (y->group == x->group && !y->walk) return false;
    int64_t taken = x->group->hop_bytes;
    return taken == 0 || taken + x->bytes <= HOP_MEMORY_BYTES;
}

static enum status begin(struct hops *x) {
    struct group *group = x->group;
    x->memory = x->bytes > 0 ? aligned_alloc(64, (size_t)x->bytes) : NULL;
    if (x->bytes > 0 && !x->memory)
        return FAIL(E_MEMORY, "no memory for %lld bytes of a %s", (long long)x->bytes, comm_op_name(x->op));
    TRY(hop_walk_open(&x->table, group->size, (int64_t)dtype_size(x->dtype), &x->buffers, x->memory, &by_messages, x,
                      &x->walk));
    group->hop_bytes += x->bytes;
    group->ledger.hop_bytes = max64(group->ledger.hop_bytes, group->hop_bytes);
    return OK;
}

/* Free the memory as soon as the collective is done, not at its caller's next test, because later ones wait for it. */
static void give_back(struct hops *x) {
    free(x->memory);
    x->memory = NULL;
    if (x->walk) x->group->hop_bytes -= x->bytes;
    x->bytes = 0;
}

static void advance(struct hops *x) {
    if (x->done || x->failed != TRANSPORT_OK || (!x->walk && !may_begin(x))) return;
    enum status pushed = x->walk ? OK : begin(x);
    if (pushed == OK && comm_links_emulated()) pushed = look_for_stamps(x);
    if (pushed == OK) pushed = hop_walk_push(x->walk, &x->done);
    if (pushed != OK && x->failed == TRANSPORT_OK) x->failed = FAILED_HERE;
    if (!x->walk) return;
    int hops, hop = hop_walk_done(x->walk, &hops);
    flight_hop_is(x->flight, hop, hops);
    if (x->done) give_back(x);
}

void comm_hops_progress(void) {
    for (struct hops *x = first; x; x = x->next) advance(x);
}

static void end(struct hops *x) {
    struct hops **at = &first;
    while (*at && *at != x) at = &(*at)->next;
    if (*at) *at = x->next;
    give_back(x);
    hop_walk_close(&x->walk);
    hop_table_free(&x->table);
    free(x);
}

void comm_hops_drop(void) {
    while (first) end(first);
}

static enum status lay_out(struct hops *x, const struct comm_algorithm *algorithm, const struct comm_call *call) {
    struct hop_shape shape = shape_of(x->group, call);
    x->buffers = (struct hop_buffers){call->from, call->op == COMM_BARRIER ? &x->barrier : call->to};
    TRY(hops_make(algorithm, &shape, x->group->rank, &x->table));
    x->bytes = hop_walk_bytes(&x->table, (int64_t)dtype_size(call->dtype));
    return OK;
}

static void line_up(struct hops *x) {
    struct hops **last = &first;
    while (*last) last = &(*last)->next;
    *last = x;
}

enum status comm_hops_start(const struct comm_algorithm *algorithm, const struct comm_call *call,
                            struct comm_request *request) {
    struct hops *x = calloc(1, sizeof *x);
    if (!x) return FAIL(E_MEMORY, "no memory to exchange %lld elements", (long long)call->count);
    *x = (struct hops){.group = request->group,
                       .op = call->op,
                       .flight = request->flight,
                       .dtype = call->dtype,
                       .reduction = call->reduction,
                       .tag = comm_is_message(call->op)
                                  ? call->tag
                                  : COMM_TAG_MAX + 1 + (int)(request->sequence % (COMM_TAG_MAX + 1))};
    enum status made = lay_out(x, algorithm, call);
    if (made != OK) {
        end(x);
        return made;
    }
    line_up(x);
    request->handle = x;
    request->backend = &comm_hops;
    advance(x);
    return OK;
}

static enum status test(struct comm_request *request, bool *done) {
    struct hops *x = request->handle;
    if (x->walk) advance(x);
    else comm_hops_progress();                                /* advance the older operations for which it waits, too */
    *done = x->done;
    if (!x->done && x->failed == TRANSPORT_OK) return OK;
    int failed = x->failed;
    request->handle = NULL;
    if (failed == TRANSPORT_OK) {
        end(x);
        return OK;
    }
    if (failed == FAILED_HERE)                                           /* not freed: its messages may still come */
        return FAIL(E_COMM, "%s #%lld of group %s cannot go on", comm_op_name(request->op),
                    (long long)request->sequence, request->group->name);
    return transport_failed(request, "finish", failed);
}

const struct comm_backend comm_hops = {.name = "hops", .test = test};
