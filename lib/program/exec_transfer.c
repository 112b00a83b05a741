/* Transfers between the stages of a pipeline: a receive lands in the value itself; a send leaves a copy in the ring and
 * goes on. */
#include "lib/program/exec_state.h"

#include "lib/base/clock.h"

static void *ring_slot(const struct exec *e, int channel, int slot) {
    const struct stage_ring *ring = &e->memory->ring[channel];
    return arena_at(&e->arenas[ROLE_COMM], ring->offset + slot * arena_align(ring->bytes));
}

static enum status receive(struct exec *e, const struct action *a, struct place at) {
    const struct chunk *k = &e->chunks[a->chunk];
    int from = schedule_hop(e->schedule, a).rank, channel = schedule_channel(e->schedule, a);
    int v = a->kind == RECV_B ? k->dout : k->in;
    void *to = exec_value(e, at, v);
    struct comm_request request = {0};
    if (from == e->schedule->rank) {                                 /* this rank has left it in its own ring */
        int slot = e->ring_taken[channel]++ % e->memory->ring[channel].slots;
        return e->device->copy(e->device, to, ring_slot(e, channel, slot), k->values[v].bytes);
    }
    TRY(comm_recv_start(e->mesh->group[AXIS_PP], to, k->values[v].bytes, UINT8, from, channel, &request));
    return comm_wait(&request);
}

static enum status send(struct exec *e, const struct action *a, struct place at) {
    const struct chunk *k = &e->chunks[a->chunk];
    int to = schedule_hop(e->schedule, a).rank, channel = schedule_channel(e->schedule, a);
    int v = a->kind == SEND_B ? k->din : k->out, slot = e->ring_used[channel]++ % e->memory->ring[channel].slots;
    struct comm_request *request = &e->ring_requests[channel][slot];
    void *copy = ring_slot(e, channel, slot);
    TRY(comm_wait(request));                                         /* the slot's last message has left */
    TRY(e->device->copy(e->device, copy, exec_value(e, at, v), k->values[v].bytes));
    if (to == e->schedule->rank) return OK;
    return comm_send_start(e->mesh->group[AXIS_PP], copy, k->values[v].bytes, UINT8, to, channel, request);
}

enum status exec_finish_sends(struct exec *e) {
    for (int d = 0; d < N_CHANNELS; d++)
        for (int i = 0; i < e->memory->ring[d].slots; i++) TRY(comm_wait(&e->ring_requests[d][i]));
    return OK;
}

static int64_t message_bytes(const struct chunk *k, enum action_kind kind) {
    int v = kind == RECV_F ? k->in : kind == SEND_F ? k->out : kind == RECV_B ? k->dout : k->din;
    return k->values[v].bytes;
}

enum status exec_transfer(struct exec *e, const struct action *a, struct place at, struct span *recorded) {
    double start = clock_s();
    if (recorded) recorded->bytes = (double)message_bytes(&e->chunks[a->chunk], a->kind);
    TRY(a->kind == RECV_F || a->kind == RECV_B ? receive(e, a, at) : send(e, a, at));
    e->transfer_s += clock_s() - start;
    return OK;
}
