/* How NCCL's fake carries out an operation: every member sends its part to every other, and reduces what it gets in the
 * order of the ranks. Slow and simple; it starts when its stream reaches it, ends when all members have arrived, and
 * gives the same bits everywhere.
 *
 * Each member sends a header with its call before the data. If headers differ, NCCL hangs or mixes up bytes; here the
 * communicator breaks with a line. A send is complete when the receiver takes it (until_taken), because NCCL promises
 * no buffer in between. A maximum drops NaN, as fmax does and as NCCL's does. */
#include "tests/simt/fake_nccl.h"

#include "lib/device/dtype.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

size_t nccl_type_bytes(ncclDataType_t type) {
    switch (type) {
    case ncclInt8: case ncclUint8: return 1;
    case ncclFloat16: case ncclBfloat16: return 2;
    case ncclInt32: case ncclUint32: case ncclFloat32: return 4;
    case ncclInt64: case ncclUint64: case ncclFloat64: return 8;
    default: return 0;
    }
}

const char *nccl_kind_name(int kind) {
    static const char *const names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast", "Reduce", "Send",
                                        "Recv"};
    return names[kind];
}

static bool is_message(const nccl_operation &o) { return o.header.kind == SEND || o.header.kind == RECV; }

/* ---- sums ---- */
template <class T> static T combine(T a, T b, int reduction) {
    if (reduction == ncclSum) return (T)(a + b);
    if (reduction == ncclMax) return std::is_floating_point<T>::value ? (T)fmax((double)a, (double)b) : a > b ? a : b;
    return std::is_floating_point<T>::value ? (T)fmin((double)a, (double)b) : a < b ? a : b;
}

/* to[i] = the reduction of part[0][i], part[1][i], ...; 16-bit types in fp32, rounded once. */
template <class Storage, class Wide, class Read, class Write>
static void reduce_as(void *to, const std::vector<const char *> &part, size_t count, int reduction, Read read,
                      Write write) {
    for (size_t i = 0; i < count; i++) {
        Storage x;
        Wide sum = 0;
        for (size_t r = 0; r < part.size(); r++) {
            memcpy(&x, part[r] + i * sizeof x, sizeof x);
            sum = r == 0 ? (Wide)read(x) : combine<Wide>(sum, (Wide)read(x), reduction);
        }
        x = (Storage)write(sum);
        memcpy((char *)to + i * sizeof x, &x, sizeof x);
    }
}
template <class T> static T same(T x) { return x; }

static void reduce_parts(void *to, const std::vector<const char *> &part, const nccl_header &h, size_t count) {
    int red = h.reduction;
    switch (h.type) {
    case ncclFloat64: return reduce_as<double, double>(to, part, count, red, same<double>, same<double>);
    case ncclFloat32: return reduce_as<float, float>(to, part, count, red, same<float>, same<float>);
    case ncclFloat16: return reduce_as<uint16_t, float>(to, part, count, red, fp16_to_float, fp16_from_float);
    case ncclBfloat16: return reduce_as<uint16_t, float>(to, part, count, red, bf16_to_float, bf16_from_float);
    case ncclInt32: return reduce_as<int32_t, int32_t>(to, part, count, red, same<int32_t>, same<int32_t>);
    case ncclInt64: return reduce_as<int64_t, int64_t>(to, part, count, red, same<int64_t>, same<int64_t>);
    case ncclUint64: return reduce_as<uint64_t, uint64_t>(to, part, count, red, same<uint64_t>, same<uint64_t>);
    case ncclUint32: return reduce_as<uint32_t, uint32_t>(to, part, count, red, same<uint32_t>, same<uint32_t>);
    case ncclInt8: return reduce_as<int8_t, int8_t>(to, part, count, red, same<int8_t>, same<int8_t>);
    default: return reduce_as<uint8_t, uint8_t>(to, part, count, red, same<uint8_t>, same<uint8_t>);
    }
}

/* ---- sending ---- */
/* The part of this member's buffer that goes to `peer`. */
static bytes_t payload(const ncclComm *c, const nccl_operation &o, int peer) {
    size_t bytes = o.header.count * nccl_type_bytes((ncclDataType_t)o.header.type);
    const char *from = (const char *)o.from;
    bool root = o.header.root == c->rank;
    if (o.header.kind == REDUCE_SCATTER) from += (size_t)peer * bytes;
    if (o.header.kind == BROADCAST && !root) bytes = 0;
    if (o.header.kind == REDUCE && o.header.root != peer) bytes = 0;
    bytes_t out(sizeof o.header + bytes);
    memcpy(out.data(), &o.header, sizeof o.header);
    if (bytes) memcpy(out.data() + sizeof o.header, from, bytes);
    return out;
}

static wire_key key_of(const ncclComm *c, const nccl_operation &o) {
    return nccl_key(c, is_message(o) ? WIRE_MESSAGE : WIRE_COLLECTIVE);
}

static void send_part(ncclComm *c, nccl_operation &o, int peer) {
    o.sent[peer] = payload(c, o, peer);
    o.leaving.push_back(wire_send(key_of(c, o), c->members[peer], o.sent[peer], is_message(o)));
}

static void start(ncclComm *c, nccl_operation &o) {
    fake_memory_open();
    o.started = true;
    o.sent.resize(c->n);
    o.received.resize(c->n);
    o.arrived.assign(c->n, 0);
    if (o.header.kind == RECV) return;
    if (o.header.kind == SEND) return send_part(c, o, o.peer);
    for (int r = 0; r < c->n; r++) {
        if (r != c->rank) send_part(c, o, r);
        else o.sent[r] = payload(c, o, r);
    }
}

/* ---- receiving ---- */
static void say(char *text, size_t bytes, const nccl_header &h) {
    snprintf(text, bytes, "%s of %llu elements of type %d (reduction %d, root %d)", nccl_kind_name(h.kind),
             (unsigned long long)h.count, h.type, h.reduction, h.root);
}

static bool agrees(ncclComm *c, const nccl_operation &o, int peer) {
    nccl_header theirs, mine = o.header;
    memcpy(&theirs, o.received[peer].data(), sizeof theirs);
    if (mine.kind == RECV) mine.kind = SEND;
    if (memcmp(&mine, &theirs, sizeof mine) == 0) return true;
    char a[160], b[160];
    say(a, sizeof a, mine);
    say(b, sizeof b, theirs);
    nccl_break(c, ncclInvalidUsage, "rank %d calls %s, rank %d %s", c->rank, a, peer, b);
    return false;
}

/* Messages of one kind from one peer arrive in the order of their sequence numbers; only the operation with that number
 * takes them. */
static bool take(ncclComm *c, nccl_operation &o, int peer) {
    bool dead = wire_is_dead(c->members[peer]);                      /* before the look: sent messages count */
    o.arrived[peer] = wire_take(key_of(c, o), c->members[peer], o.received[peer]);
    if (!o.arrived[peer] && dead) nccl_break(c, ncclRemoteError, "rank %d has ended", peer);
    return o.arrived[peer];
}

static bool have_left(nccl_operation &o) {
    while (!o.leaving.empty() && wire_has_left(o.leaving.front())) o.leaving.pop_front();
    return o.leaving.empty();
}

static const char *data_of(const bytes_t &message) { return message.data() + sizeof(nccl_header); }

static void finish(ncclComm *c, nccl_operation &o) {
    size_t bytes = o.header.count * nccl_type_bytes((ncclDataType_t)o.header.type);
    bool root = o.header.root == c->rank;
    fake_memory_open();
    o.received[c->rank] = is_message(o) ? o.received[c->rank] : o.sent[c->rank];
    std::vector<const char *> part;
    for (int r = 0; r < c->n && !is_message(o); r++) part.push_back(data_of(o.received[r]));
    switch (o.header.kind) {
    case ALL_REDUCE: case REDUCE_SCATTER: return reduce_parts(o.to, part, o.header, o.header.count);
    case REDUCE: return root ? reduce_parts(o.to, part, o.header, o.header.count) : (void)0;
    case ALL_GATHER:
        for (int r = 0; r < c->n; r++) memcpy((char *)o.to + (size_t)r * bytes, part[r], bytes);
        return;
    case BROADCAST:
        if (o.to != o.from || !root) memcpy(o.to, part[o.header.root], bytes);
        return;
    case RECV: memcpy(o.to, data_of(o.received[o.peer]), bytes); return;
    default: return;
    }
}

static bool step_collective(ncclComm *c, nccl_operation &o) {
    if (c->next_collective != o.header.sequence) return false;
    bool all = true;
    for (int r = 0; r < c->n; r++) {
        if (r == c->rank || o.arrived[r]) continue;
        if (!take(c, o, r)) all = false;
        else if (!agrees(c, o, r)) return false;
    }
    if (all) c->next_collective++;
    return all;
}

static bool step_message(ncclComm *c, nccl_operation &o) {
    if (o.header.kind == SEND || c->next_received[o.peer] != o.header.sequence || !take(c, o, o.peer)) return false;
    c->next_received[o.peer]++;
    return agrees(c, o, o.peer);
}

/* An operation is done when all its messages have arrived, its result is written, and its own messages have left. */
static bool step(ncclComm *c, nccl_operation &o) {
    if (!o.started) start(c, o);
    if (!o.finished && o.header.kind != SEND) {
        o.finished = is_message(o) ? step_message(c, o) : step_collective(c, o);
        if (o.finished) finish(c, o);
    }
    return (o.finished || o.header.kind == SEND) && have_left(o);
}

/* A communicator's bundles start in the order in which they were issued, whatever streams they are on. A broken
 * communicator stops until it is aborted. */
bool nccl_bundle_step(ncclComm *c, nccl_bundle *b) {
    if (c->aborted) return true;
    if (c->state != ncclSuccess && c->state != ncclInProgress) return false;
    if (c->members.empty() || c->started < b->ticket) return false;
    if (c->started == b->ticket) c->started++;
    bool all = true;
    for (nccl_operation &o : b->operations) all &= step(c, o);
    if (all) c->ended++;
    return all && (c->state == ncclSuccess || c->state == ncclInProgress);
}
