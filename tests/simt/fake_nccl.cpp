/* The fake of NCCL: communicators, and the calls that queue operations. How members reach each other: fake_wire.h.
 *
 * As with NCCL, a communicator is made from an id that only its maker's process and its members have; the members meet
 * at the maker (here a member, too). With blocking = 0, creation and the first operation return ncclInProgress, and
 * proceed in calls of ncclCommGetAsyncError; a program that records an event before these calls records it too early.
 * Two ranks on one GPU are refused; SIMT_NCCL=23000 makes it NCCL 2.30, which allows them with
 * NCCL_MULTI_RANK_GPU_ENABLE=1. Operations of an ncclGroup run as one.
 *
 * Stricter than NCCL: it refuses host memory, memory of another GPU or beyond the end of an allocation, and buffers
 * that overlap in other ways than the guide allows.
 *
 * Source: NCCL user guide, "Creating a Communicator", "Group Calls", "Fault Tolerance", "In-place Operations". */
#include "tests/simt/fake_nccl.h"

#include "lib/base/clock.h"

#include <map>
#include <algorithm>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef std::shared_ptr<ncclComm> comm_ptr;

static std::vector<comm_ptr> comms;
static std::string last_error;

/* ---- errors ---- */
static ncclResult_t refuse(ncclResult_t result, const char *format, ...) __attribute__((format(printf, 2, 3)));
static ncclResult_t refuse(ncclResult_t result, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    last_error = text;
    fprintf(stderr, "simt: NCCL: %s\n", text);
    return result;
}

void nccl_break(ncclComm *c, ncclResult_t result, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (c->state != ncclSuccess && c->state != ncclInProgress) return;
    c->state = refuse(result, "%s", text);
    c->why = text;
}

static comm_ptr comm_of(ncclComm_t handle) {
    for (comm_ptr &c : comms)
        if (c.get() == handle) return c;
    return nullptr;
}

/* ---- meeting ---- */
struct identity { uint32_t magic; int32_t address, number; };
struct card { int32_t address, rank, n, device; char host[64]; };
static const uint32_t magic = 0x51d0c0de;

static std::map<ncclComm *, std::vector<card>> meeting;     /* at the maker: the cards that have come */

static card my_card(const ncclComm *c) {
    card mine = {};
    mine.address = wire_self();
    mine.rank = c->rank, mine.n = c->n, mine.device = c->device;
    gethostname(mine.host, sizeof mine.host - 1);
    return mine;
}

static int version(void) { return getenv("SIMT_NCCL") ? atoi(getenv("SIMT_NCCL")) : NCCL_VERSION_CODE; }

static bool ranks_may_share(void) {
    const char *wanted = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    return version() >= 23000 && wanted && strcmp(wanted, "1") == 0;
}

static void judge(ncclComm *c, const std::vector<card> &table) {
    std::vector<int> members(c->n, -1);
    for (const card &a : table) {
        if (a.n != c->n || a.rank < 0 || a.rank >= c->n || members[a.rank] >= 0)
            return nccl_break(c, ncclInvalidArgument, "rank %d of %d joins a communicator of %d, or twice", a.rank, a.n,
                              c->n);
        members[a.rank] = a.address;
        for (const card &b : table)
            if (a.rank < b.rank && a.device == b.device && strcmp(a.host, b.host) == 0 && !ranks_may_share())
                return nccl_break(c, ncclInvalidUsage,
                                  "Duplicate GPU detected : rank %d and rank %d both on CUDA device %d", a.rank, b.rank,
                                  a.device);
    }
    c->n_sent = c->n_received = c->next_sent = c->next_received = std::vector<uint64_t>(c->n, 0);
    c->members = members;
    c->state = ncclSuccess;
}

static void collect_cards(ncclComm *c) {
    std::vector<card> &table = meeting[c];
    bytes_t message;
    while (wire_take(nccl_key(c, WIRE_CARD), WIRE_ANY, message)) {
        card one;
        memcpy(&one, message.data(), sizeof one);
        table.push_back(one);
    }
    if ((int)table.size() < c->n) return;
    for (const card &to : table)
        if (to.address != c->id.address)
            wire_post(nccl_key(c, WIRE_TABLE), to.address, table.data(), table.size() * sizeof(card));
    judge(c, table);
    meeting.erase(c);
}

static void look_for_table(ncclComm *c) {
    bytes_t message;
    if (!wire_take(nccl_key(c, WIRE_TABLE), c->id.address, message)) return;
    std::vector<card> table(message.size() / sizeof(card));
    memcpy(table.data(), message.data(), message.size());
    judge(c, table);
}

static void begin_meeting(ncclComm *c) {
    card mine = my_card(c);
    if (mine.address == c->id.address) return meeting[c].push_back(mine);
    wire_post(nccl_key(c, WIRE_CARD), c->id.address, &mine, sizeof mine);
}

/* One poll of a non-blocking communicator: its pending call proceeds. */
static void look(ncclComm *c) {
    if (c->state != ncclInProgress) return;
    if (c->members.empty()) {
        if (clock_s() < c->meets_s) return;
        if (wire_self() == c->id.address) collect_cards(c);
        else look_for_table(c);
        return;
    }
    if (!c->postponed.empty()) {
        for (auto &call : c->postponed) call();
        c->postponed.clear();
        c->state = ncclSuccess;
    } else if (c->ended == c->issued) {
        c->state = ncclSuccess;                             /* finalized: all has ended */
    }
}

static ncclResult_t settle(ncclComm *c) {
    while (c->state == ncclInProgress) {
        look(c);
        fake_poke();
        sched_yield();
    }
    return c->state;
}

extern "C" {

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
    static int number;
    identity mine = {magic, 0, number++};
    if (!wire_is_open()) return refuse(ncclSystemError, "the fake of NCCL needs MPI_Init_thread or SIMT_WIRE first");
    mine.address = wire_self();
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &mine, sizeof mine);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank, ncclConfig_t *config) {
    identity who;
    memcpy(&who, id.internal, sizeof who);
    *out = NULL;
    if (who.magic != magic) return refuse(ncclInvalidArgument, "the id is none of ncclGetUniqueId's");
    if (n < 1 || rank < 0 || rank >= n) return refuse(ncclInvalidArgument, "rank %d of %d", rank, n);
    if (config && (config->size != sizeof *config || config->magic != 0xcafebeef))
        return refuse(ncclInvalidArgument, "the configuration was not initialised with NCCL_CONFIG_INITIALIZER");
    comm_ptr c = std::make_shared<ncclComm>();
    c->n = n, c->rank = rank, c->device = fake_device(), c->id = {who.address, who.number, 0};
    c->blocking = !config || config->blocking != 0;
    c->meets_s = clock_s() + (getenv("SIMT_MEETING") ? atof(getenv("SIMT_MEETING")) : 0);
    comms.push_back(c);
    begin_meeting(c.get());
    *out = c.get();
    if (!c->blocking) return ncclInProgress;
    ncclResult_t result = settle(c.get());
    if (result == ncclSuccess) return result;
    comms.erase(std::find(comms.begin(), comms.end(), c));
    *out = NULL;
    return result;
}
ncclResult_t ncclCommInitRank(ncclComm_t *out, int n, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(out, n, id, rank, NULL);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t *state) {
    comm_ptr c = comm_of(handle);
    if (!c) return refuse(ncclInvalidArgument, "ncclCommGetAsyncError: no such communicator");
    *state = c->state;
    look(c.get());
    fake_poke();
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
    comm_ptr c = comm_of(handle);
    if (!c || c->state != ncclSuccess)
        return refuse(ncclInvalidUsage, "ncclCommFinalize of a communicator that is not at rest");
    c->state = ncclInProgress;
    return c->blocking ? settle(c.get()) : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
    comm_ptr c = comm_of(handle);
    if (!c) return refuse(ncclInvalidArgument, "ncclCommDestroy: no such communicator");
    if (c->state == ncclSuccess) fake_wait([c] { return c->ended == c->issued || c->state != ncclSuccess; });
    comms.erase(std::find(comms.begin(), comms.end(), c));
    return ncclSuccess;
}

static int group_depth;                                     /* of ncclGroupStart */
static bool group_aborts;

/* Aborted operations may have unsent messages, so their bundles and buffers stay. The call waits for the GPU, inside a
 * group only at its end, because the group's work on other communicators must be able to end. */
ncclResult_t ncclCommAbort(ncclComm_t handle) {
    static std::vector<comm_ptr> graveyard;
    comm_ptr c = comm_of(handle);
    if (!c) return refuse(ncclInvalidArgument, "ncclCommAbort: no such communicator");
    c->aborted = true;
    graveyard.push_back(c);
    comms.erase(std::find(comms.begin(), comms.end(), c));
    if (group_depth > 0) group_aborts = true;
    else cudaDeviceSynchronize();
    return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t result) {
    static const char *const texts[] = {"no error",
                                        "unhandled cuda error",
                                        "unhandled system error",
                                        "internal error",
                                        "invalid argument",
                                        "invalid usage",
                                        "remote process exited or there was a network error",
                                        "NCCL operation in progress"};
    return (unsigned)result < sizeof texts / sizeof *texts ? texts[result] : "unknown result code";
}
const char *ncclGetLastError(ncclComm_t) { return last_error.c_str(); }
ncclResult_t ncclGetVersion(int *out) {
    *out = version();
    return ncclSuccess;
}

}

/* ---- operations ---- */
struct queued { comm_ptr comm; cudaStream_t stream; nccl_operation operation; };
static std::vector<queued> group;                           /* between ncclGroupStart and ncclGroupEnd */
static std::vector<std::shared_ptr<nccl_bundle>> aborted_bundles;

static void issue(const comm_ptr &c, cudaStream_t stream, std::shared_ptr<nccl_bundle> bundle) {
    fake_enqueue(stream, "NCCL", [c, bundle] {
        bool done = nccl_bundle_step(c.get(), bundle.get());
        if (done && c->aborted) aborted_bundles.push_back(bundle);
        return done;
    }, false);
}

/* A non-blocking communicator connects to its peers at the first operation, and returns ncclInProgress. */
static ncclResult_t launch(const comm_ptr &c, cudaStream_t stream, std::vector<nccl_operation> operations) {
    std::shared_ptr<nccl_bundle> bundle(new nccl_bundle{std::move(operations), c->issued++});
    bool first = !c->used;
    c->used = true;
    if (c->blocking || !first) {
        issue(c, stream, bundle);
        return ncclSuccess;
    }
    c->state = ncclInProgress;
    c->postponed.push_back([=] { issue(c, stream, bundle); });
    return ncclInProgress;
}

static ncclResult_t launch_group(void) {
    std::vector<queued> all;
    all.swap(group);
    ncclResult_t result = ncclSuccess;
    for (size_t i = 0; i < all.size(); i++) {
        comm_ptr c = all[i].comm;
        if (!c) continue;
        std::vector<nccl_operation> same;
        for (size_t j = i; j < all.size(); j++)
            if (all[j].comm == c && all[j].stream == all[i].stream) {
                same.push_back(all[j].operation);
                if (j > i) all[j].comm = nullptr;
            }
        ncclResult_t one = launch(c, all[i].stream, std::move(same));
        if (one != ncclSuccess) result = one;
    }
    return result;
}

static uint64_t number(ncclComm *c, const nccl_operation &o) {
    return o.header.kind == SEND   ? c->n_sent[o.peer]++
           : o.header.kind == RECV ? c->n_received[o.peer]++
                                   : c->n_collectives++;
}

/* ---- checks of a call ---- */
static ncclResult_t check_buffer(const ncclComm *c, const char *call, const char *which, const void *at, size_t bytes) {
    if (bytes == 0) return ncclSuccess;
    struct range r = fake_range(at, bytes);
    if (r.place != PLACE_DEVICE) return refuse(ncclInvalidArgument, "%s: %s %p is not device memory", call, which, at);
    if (!r.fits) return refuse(ncclInvalidArgument, "%s: %s crosses the end of its allocation", call, which);
    if (r.device != c->device)
        return refuse(ncclInvalidArgument, "%s: %s is memory of GPU %d, the communicator is GPU %d's", call, which,
                      r.device, c->device);
    return ncclSuccess;
}

struct sizes { size_t from, to, place; };                   /* bytes of both; where `from` may lie in `to`, or `to` in
                                                             * `from` */

static struct sizes sizes_of(const ncclComm *c, int kind, size_t bytes, int root) {
    size_t n = (size_t)c->n, mine = (size_t)c->rank * bytes;
    switch (kind) {
    case REDUCE_SCATTER: return {n * bytes, bytes, mine};
    case ALL_GATHER: return {bytes, n * bytes, mine};
    case BROADCAST: return {c->rank == root ? bytes : 0, bytes, 0};
    case REDUCE: return {bytes, c->rank == root ? bytes : 0, 0};
    case SEND: return {bytes, 0, 0};
    case RECV: return {0, bytes, 0};
    default: return {bytes, bytes, 0};
    }
}

static ncclResult_t check_overlap(const char *call, int kind, const char *from, const char *to, struct sizes s) {
    if (s.from == 0 || s.to == 0 || from + s.from <= to || to + s.to <= from) return ncclSuccess;
    bool in_place = kind == REDUCE_SCATTER ? to == from + s.place : from == to + s.place;
    return in_place ? ncclSuccess
                    : refuse(ncclInvalidArgument, "%s: the buffers overlap, and not as in-place operations do", call);
}

static ncclResult_t ask(int kind, const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t reduction,
                        int root, int peer, ncclComm_t handle, cudaStream_t stream) {
    const char *call = nccl_kind_name(kind);
    comm_ptr c = comm_of(handle);
    if (!c) return refuse(ncclInvalidArgument, "%s: no such communicator", call);
    if (c->state != ncclSuccess)
        return refuse(ncclInvalidUsage, "%s on a communicator that is not ready: %s", call,
                      ncclGetErrorString(c->state));
    if (nccl_type_bytes(type) == 0 || (unsigned)reduction > ncclMin || reduction == ncclProd)
        return refuse(ncclInvalidArgument, "%s: type %d or reduction %d is not in this double", call, type, reduction);
    if (root < 0 || root >= c->n || peer < 0 || peer >= c->n)
        return refuse(ncclInvalidArgument, "%s: rank %d of %d", call, root > peer ? root : peer, c->n);
    if (fake_stream_device(stream) != c->device)
        return refuse(ncclInvalidArgument, "%s: the stream is not one of GPU %d", call, c->device);
    struct sizes s = sizes_of(c.get(), kind, count * nccl_type_bytes(type), root);
    ncclResult_t result = check_buffer(c.get(), call, "sendbuff", from, s.from);
    if (result == ncclSuccess) result = check_buffer(c.get(), call, "recvbuff", to, s.to);
    if (result == ncclSuccess) result = check_overlap(call, kind, (const char *)from, (const char *)to, s);
    if (result != ncclSuccess) return result;

    nccl_operation o = {};
    o.header.count = count, o.header.kind = kind, o.header.type = type, o.header.reduction = reduction,
    o.header.root = root;
    o.from = from, o.to = to, o.peer = peer;
    o.header.sequence = number(c.get(), o);
    if (group_depth == 0) return launch(c, stream, {o});
    group.push_back({c, stream, o});
    return ncclSuccess;
}

extern "C" {

ncclResult_t ncclGroupStart(void) {
    group_depth++;
    return ncclSuccess;
}
ncclResult_t ncclGroupEnd(void) {
    if (group_depth == 0) return refuse(ncclInvalidUsage, "ncclGroupEnd without ncclGroupStart");
    if (--group_depth > 0) return ncclSuccess;
    ncclResult_t result = launch_group();
    if (group_aborts) cudaDeviceSynchronize();
    group_aborts = false;
    return result;
}

ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t c,
                           cudaStream_t s) {
    return ask(ALL_REDUCE, from, to, count, type, op, 0, 0, c, s);
}
ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t c, cudaStream_t s) {
    return ask(REDUCE_SCATTER, from, to, count, type, op, 0, 0, c, s);
}
ncclResult_t ncclAllGather(const void *from, void *to, size_t count, ncclDataType_t type, ncclComm_t c,
                           cudaStream_t s) {
    return ask(ALL_GATHER, from, to, count, type, ncclSum, 0, 0, c, s);
}
ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type, int root, ncclComm_t c,
                           cudaStream_t s) {
    return ask(BROADCAST, from, to, count, type, ncclSum, root, 0, c, s);
}
ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                        ncclComm_t c, cudaStream_t s) {
    return ask(REDUCE, from, to, count, type, op, root, 0, c, s);
}
ncclResult_t ncclSend(const void *from, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) {
    return ask(SEND, from, NULL, count, type, ncclSum, 0, peer, c, s);
}
ncclResult_t ncclRecv(void *to, size_t count, ncclDataType_t type, int peer, ncclComm_t c, cudaStream_t s) {
    return ask(RECV, NULL, to, count, type, ncclSum, 0, peer, c, s);
}

}
