/* Making NCCL communicators, checking them for errors, and closing them. See comm_lanes.h.
 *
 * Rank 0 of the group asks NCCL for an id, and broadcasts it on the group's MPI communicator, since all members make a
 * group together. Communicators are made with blocking = 0, so that our deadline finds a peer that never comes. A call
 * may then return "in progress", and is not queued on its stream before this ends.
 *
 * What breaks: communicators that run at once but do not all fit on the GPU. NCCL runs an operation as a kernel of up
 * to some tens of blocks, and each block needs the same block on its peers. If GPU A has room only for one operation
 * and GPU B only for another, both wait forever. So the ring's lanes get few blocks, which also leaves the GPU to other
 * kernels.
 *
 * Source: NCCL user guide, "Creating a Communicator" (with options), "Fault Tolerance" (non-blocking communicators,
 * aborting), "Using multiple NCCL communicators concurrently". */
#include "lib/comm/flight/comm_roll.h"
#include "lib/comm/membership/comm_membership.h"
#include "lib/comm/transport/comm_lanes.h"

#include <sched.h>
#include <stdlib.h>

enum { RING_BLOCKS = 8 };

static const char usage_remedy[] = "; do two ranks share a GPU? Use --comm mpi, or start one rank per GPU";

/* Is the cause a lost peer? The communicator keeps its first error, whereas `result` may be a later one. */
static bool has_lost_a_peer(const struct lane *lane, ncclResult_t result) {
    ncclResult_t first = ncclSuccess;
    if (lane->comm && ncclCommGetAsyncError(lane->comm, &first) == ncclSuccess && first != ncclSuccess) result = first;
    return result == ncclRemoteError || result == ncclSystemError || result == ncclUnhandledCudaError;
}

static enum status nccl_failed(const struct group *group, const struct lane *lane, ncclResult_t result,
                               const char *what) {
    if (has_lost_a_peer(lane, result) && comm_epoch_changes()) return E_EPOCH;
    const char *why = ncclGetLastError(lane->comm);
    return FAIL(E_COMM, "NCCL could not %s in group %s (%d ranks): %s%s%s%s", what, group->name, group->size,
                ncclGetErrorString(result), why && *why ? ": " : "", why && *why ? why : "",
                result == ncclInvalidUsage ? usage_remedy : "; NCCL_DEBUG=WARN says more");
}

enum status lane_settle(const struct group *group, struct lane *lane, ncclResult_t result, const char *what) {
    double timeout_s = comm_settings_in_force()->timeout_s, deadline_s = clock_s() + timeout_s;
    while (result == ncclInProgress) {
        ncclResult_t looked = ncclCommGetAsyncError(lane->comm, &result);
        if (looked != ncclSuccess) return nccl_failed(group, lane, looked, what);
        if (result != ncclInProgress) break;
        if (comm_epoch_has_changed()) return E_EPOCH;
        if (clock_s() >= deadline_s)
            return FAIL(E_TIMEOUT,
                        "NCCL did not %s in group %s (%d ranks) within %g s; a peer is missing, or raise "
                        "--comm-timeout if it is only slow",
                        what, group->name, group->size, timeout_s);
        roll_answer();
        sched_yield();
    }
    return result == ncclSuccess ? OK : nccl_failed(group, lane, result, what);
}

/* ---- making ---- */
struct invitation { ncclUniqueId id; int32_t made; };

/* Broadcast by the group's own backend. The ledger does not count it, because it is not an operation of the caller. */
static enum status share(struct group *group, struct invitation *invitation) {
    struct ledger before = group->ledger;
    struct comm_call call = {COMM_BROADCAST, invitation, invitation, sizeof *invitation, .dtype = UINT8};
    struct comm_request request = {.backend = group->backend, .group = group, .op = COMM_BROADCAST,
                                   .sequence = group->n_collectives};
    enum status status = group->backend->start(&call, &request);
    if (status == OK) status = comm_wait(&request);
    group->ledger = before;
    return status;
}

static enum status make_stream(cudaStream_t *stream) {
    int least, greatest;
    CUDA_TRY(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    CUDA_TRY(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, greatest));
    return OK;
}

/* A rank that cannot make a stream still takes part in the rest, so that the other ranks do not hang. */
static enum status lane_open(struct group *group, struct lane *lane, int max_blocks) {
    struct invitation invitation = {.made = 0};
    if (group->rank == 0) invitation.made = ncclGetUniqueId(&invitation.id) == ncclSuccess;
    enum status status = make_stream(&lane->stream);
    TRY(share(group, &invitation));
    if (!invitation.made)
        return FAIL(E_COMM, "NCCL gave rank 0 of group %s no id: %s", group->name, ncclGetLastError(NULL));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    if (max_blocks) config.maxCTAs = max_blocks;
    ncclResult_t result = ncclCommInitRankConfig(&lane->comm, group->size, invitation.id, group->rank, &config);
    if (result != ncclSuccess && result != ncclInProgress)
        return nccl_failed(group, lane, result, "make a communicator");
    enum status settled = lane_settle(group, lane, result, "make a communicator");
    return status == OK ? settled : status;
}

enum status lanes_open(struct group *group) {
    group->side = calloc(1, sizeof(struct lanes));
    if (!group->side) return FAIL(E_MEMORY, "no memory for the communicators of group %s", group->name);
    return lane_open(group, &((struct lanes *)group->side)->collectives, 0);
}

/* ---- the ring ---- */
static int colour_of(int edge, int n) { return n % 2 && edge == n - 1 ? 2 : edge % 2; }

static bool to_next(int tag) { return tag == 0 || tag == 3; }

/* The edge of the ring for a message with this tag from `from` to `to`; -1: none. */
static int edge_of(int from, int to, int tag, int n) {
    if (to_next(tag) && to == (from + 1) % n) return from;
    if (!to_next(tag) && from == (to + 1) % n) return to;
    return -1;
}

enum status lane_of(const struct group *group, const struct comm_call *call, struct lane **out) {
    struct lanes *lanes = group->side;
    *out = &lanes->collectives;
    if (!comm_is_message(call->op)) return OK;
    const char *op = comm_op_name(call->op);
    if (!group->n_tags)
        return FAIL(E_INTERNAL, "%s of device memory in group %s, which carries none; group_carry_messages comes first",
                    op, group->name);
    if (call->tag >= group->n_tags)
        return FAIL(E_INTERNAL, "%s of device memory in group %s with tag %d; it has lanes for tags below %d", op,
                    group->name, call->tag, group->n_tags);
    int from = call->op == COMM_SEND ? group->rank : call->peer, to = call->op == COMM_SEND ? call->peer : group->rank;
    int edge = edge_of(from, to, call->tag, group->size);
    if (edge < 0)
        return FAIL(E_INTERNAL,
                    "%s of device memory from rank %d to rank %d of group %s with tag %d; tags 0 and 3 go to the next "
                    "rank, 1 and 2 to the one before",
                    op, from, to, group->name, call->tag);
    *out = &lanes->ring[call->tag][colour_of(edge, group->size)];
    return OK;
}

/* Send one byte along the edges of a lane: NCCL connects two peers at their first message, and both hosts wait for
 * that. */
static enum status say_hello(struct group *group, struct lane *lane, int tag, int colour, char *byte) {
    int n = group->size, rank = group->rank, step = to_next(tag) ? 1 : n - 1, next = (rank + step) % n,
        before = (rank + n - step) % n;
    ncclResult_t result = ncclSuccess;
    if (colour_of(edge_of(rank, next, tag, n), n) == colour)
        result = ncclSend(byte, 1, ncclUint8, next, lane->comm, lane->stream);
    else if (colour_of(edge_of(before, rank, tag, n), n) == colour)
        result = ncclRecv(byte, 1, ncclUint8, before, lane->comm, lane->stream);
    return lane_settle(group, lane, result, "connect neighbors");
}

enum status lanes_open_ring(struct group *group, int first_tag) {
    struct lanes *lanes = group->side;
    const struct device *device = comm_device();
    void *byte = NULL;
    enum status status = device->allocate(device, 1, &byte);
    for (int tag = first_tag; tag < group->n_tags; tag++)
        for (int colour = 0; colour < (group->size % 2 ? 3 : 2); colour++) {
            struct lane *lane = &lanes->ring[tag][colour];
            enum status made = lane_open(group, lane, RING_BLOCKS);
            if (made == OK && byte) made = say_hello(group, lane, tag, colour, byte);
            if (status == OK) status = made;
        }
    if (status != OK) lanes_abort(group);        /* release waits for the GPU, where the byte may wait for a neighbor */
    if (byte) device->release(device, byte, 1);
    return status;
}

/* ---- checking and closing ---- */
static void for_each_lane(struct lanes *lanes, void (*act)(struct lane *, void *), void *with) {
    act(&lanes->collectives, with);
    for (int i = 0; i < LANE_TAGS * LANE_COLOURS; i++) act(&lanes->ring[i / LANE_COLOURS][i % LANE_COLOURS], with);
}

struct look { const struct group *group; enum status status; };

static void look_at(struct lane *lane, void *with) {
    struct look *look = with;
    ncclResult_t state = ncclSuccess;
    if (!lane->comm || look->status != OK) return;
    ncclResult_t looked = ncclCommGetAsyncError(lane->comm, &state);
    if (looked != ncclSuccess) state = looked;
    if (state != ncclSuccess && state != ncclInProgress)
        look->status = nccl_failed(look->group, lane, state, "finish an operation");
}

enum status lanes_check(const struct group *group) {
    struct look look = {group, OK};
    if (group->side) for_each_lane(group->side, look_at, &look);
    return look.status;
}

static void drop_stream(struct lane *lane) {
    if (lane->stream) cudaStreamDestroy(lane->stream);
    *lane = (struct lane){0};
}

static void abort_lane(struct lane *lane, void *with) {
    (void)with;
    if (lane->comm) ncclCommAbort(lane->comm);
    lane->comm = NULL;                           /* the stream stays, because our own work follows on it */
}

static void close_lane(struct lane *lane, void *with) {
    const struct group *group = with;
    if (lane->comm && lane_settle(group, lane, ncclCommFinalize(lane->comm), "finish what is in flight") == OK)
        ncclCommDestroy(lane->comm);
    else if (lane->comm) ncclCommAbort(lane->comm), status_clear();
    drop_stream(lane);
}

void lanes_abort(struct group *group) {
    if (group->side) for_each_lane(group->side, abort_lane, NULL);
}

void lanes_close(struct group *group) {
    if (!group->side) return;
    for_each_lane(group->side, close_lane, group);
    free(group->side);
    group->side = NULL;
}
