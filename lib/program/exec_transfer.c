/* Transfers between the stages of a pipeline: a receive writes into the value itself; a send puts a copy into the ring
 * and does not wait. Each stream is a message of its own. All streams go over one channel, in order, so that the
 * receiver can tell them apart. */
#include "lib/program/exec_state.h"

#include "lib/base/clock.h"

static void *ring_slot(const struct exec *e, int channel, int slot, int stream) {
    const struct stage_ring *ring = &e->memory->ring[channel];
    return arena_at(&e->arenas[ROLE_COMM], ring->offset + slot * arena_align(ring->bytes) + ring->stream[stream]);
}

/* A message of one stream: value v, to or from a rank. slot: its index in this rank's ring. */
struct message { int v, stream, rank, channel, slot; };

static enum status receive(struct exec *e, const struct message *m, struct place at) {
    int64_t bytes = e->chunks[at.chunk].values[m->v].bytes;
    void *to = exec_value(e, at, m->v);
    struct comm_request request = {0};
    if (m->rank == e->schedule->rank)                        /* the sender is this rank: the message lies in its ring */
        return e->device->copy(e->device, to, ring_slot(e, m->channel, m->slot, m->stream), bytes);
    TRY(comm_recv_start(e->mesh->group[AXIS_PP], to, bytes, UINT8, m->rank, m->channel, &request));
    return comm_wait(&request);
}

static enum status send(struct exec *e, const struct message *m, struct place at) {
    int64_t bytes = e->chunks[at.chunk].values[m->v].bytes;
    struct comm_request *request = &e->ring_requests[m->channel][m->slot * MAX_STREAMS + m->stream];
    void *copy = ring_slot(e, m->channel, m->slot, m->stream);
    TRY(comm_wait(request));                                        /* until the slot's previous message has left */
    TRY(e->device->copy(e->device, copy, exec_value(e, at, m->v), bytes));
    if (m->rank == e->schedule->rank) return OK;
    return comm_send_start(e->mesh->group[AXIS_PP], copy, bytes, UINT8, m->rank, m->channel, request);
}

enum status exec_finish_sends(struct exec *e) {
    for (int d = 0; d < N_CHANNELS; d++)
        for (int i = 0; i < e->memory->ring[d].slots * MAX_STREAMS; i++) TRY(comm_wait(&e->ring_requests[d][i]));
    return OK;
}

/* Ring slots are used in turn. A channel has one counter for sends, and one for receives from this rank itself. */
static int next_slot(struct exec *e, int channel, bool sends) {
    int *turn = sends ? &e->ring_used[channel] : &e->ring_taken[channel];
    return (*turn)++ % e->memory->ring[channel].slots;
}

static enum status transfer(struct exec *e, const struct action *a, struct place at) {
    bool sends = a->kind == SEND_F || a->kind == SEND_B;
    const int *moves = chunk_moves(&e->chunks[a->chunk], a->kind);
    struct message m = {.rank = schedule_hop(e->schedule, a).rank, .channel = schedule_channel(e->schedule, a)};
    if (sends || m.rank == e->schedule->rank) m.slot = next_slot(e, m.channel, sends);
    for (m.stream = 0; m.stream < MAX_STREAMS; m.stream++)
        if ((m.v = moves[m.stream]) >= 0) TRY(sends ? send(e, &m, at) : receive(e, &m, at));
    return OK;
}

enum status exec_transfer(struct exec *e, const struct action *a, struct place at, struct span *recorded) {
    double start = clock_s();
    if (recorded) recorded->bytes = (double)chunk_moved_bytes(&e->chunks[a->chunk], a->kind);
    TRY(transfer(e, a, at));
    e->transfer_s += clock_s() - start;
    return OK;
}
