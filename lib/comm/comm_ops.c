/* Starting an operation: number it, check it, count it, and pass it to its backend.
 *
 * Each public function fills in one struct comm_call; `begin` does everything else for all of them. */
#include "lib/comm/comm_device.h"
#include "lib/comm/flight/flight.h"

/* Bytes of the whole buffer, which the ledger's formulas use. For gather, scatter and all_to_all, count is one rank's
 * part of it. */
static double whole_bytes(const struct group *group, const struct comm_call *call) {
    bool parts = call->op == COMM_ALL_GATHER || call->op == COMM_REDUCE_SCATTER || call->op == COMM_ALL_TO_ALL;
    return (double)call->count * (double)dtype_size(call->dtype) * (parts ? group->size : 1);
}

static enum status check_arguments(const struct group *group, const struct comm_call *call) {
    const char *op = comm_op_name(call->op);
    if (call->count < 0) return FAIL(E_INTERNAL, "%s of %lld elements", op, (long long)call->count);
    if (call->peer < 0 || call->peer >= group->size)
        return FAIL(E_INTERNAL, "%s names rank %d of group %s, which has ranks 0 to %d", op, call->peer, group->name,
                    group->size - 1);
    if (call->tag < 0 || call->tag > COMM_TAG_MAX)
        return FAIL(E_INTERNAL, "%s with tag %d; tags are 0 to %d", op, call->tag, COMM_TAG_MAX);
    return OK;
}

/* ---- recording (lib/base/span.h) ---- */
/* Only steps are recorded, not evaluation and checkpoints, because the recorder's memory is sized for steps. @return 1
 * + the span, or 0 */
static int open_span(const struct group *group, const struct comm_call *call, double bytes) {
    struct spans *recorder = comm_recorder();
    if (!recorder || recorder->now.step < 0 || group->size == 1 || comm_is_message(call->op)) return 0;
    int span = span_open(recorder, SPAN_COMM, (int)call->op);
    if (span < 0) return 0;
    struct span *x = span_at(recorder, span);
    x->axis = (uint8_t)group->axis;
    x->count = (int32_t)call->count;
    x->bytes = bytes;
    return span + 1;
}

/* ---- the flight record ---- */
static int64_t note_call(const struct group *group, const struct comm_call *call, int64_t sequence) {
    bool message = comm_is_message(call->op), rooted = call->op == COMM_BROADCAST || call->op == COMM_REDUCE;
    return flight_called(group->flight, !message, &(struct flight_row){
        .sequence = sequence, .count = call->count, .tag = call->tag, .op = (uint8_t)call->op,
        .peer = message || rooted ? group->members[call->peer] : -1, .dtype = (uint8_t)call->dtype,
        .reduction = (uint8_t)call->reduction});
}

static void show(const struct group *group, const struct comm_call *call, double bytes) {
    struct comm_watch watch = comm_watching();
    if (!watch.call || group->size == 1) return;
    bool message = comm_is_message(call->op);
    watch.call(watch.self, &(struct comm_seen){call->op, call->dtype, call->count, bytes,
                                               message ? group->members[call->peer] : -1, message ? call->tag : 0,
                                               group->name, group->members, group->size});
}

static enum status begin(const struct group *borrowed, const struct comm_call *call, struct comm_request *request) {
    struct group *group = group_counting(borrowed);
    *request = (struct comm_request){.group = group, .op = call->op, .peer = call->peer};
    TRY(check_arguments(group, call));
    TRY(comm_backend_of(group, call, &request->backend));
    request->sequence = comm_is_message(call->op) ? group->n_messages++ : group->n_collectives++;
    request->flight = note_call(group, call, request->sequence);
    if (comm_settings_in_force()->check_collectives && !comm_is_message(call->op) && group->size > 1)
        TRY(comm_check(group, call, request));
    struct ledger_entry *entry = &group->ledger.entry[call->op];
    double bytes = comm_algorithm_bytes(call->op, group->size, whole_bytes(group, call));
    entry->calls++;
    entry->bytes += bytes;
    show(group, call, bytes);
    request->span = open_span(group, call, bytes);
    double entered_s = comm_enter();
    TRY(request->backend->start(call, request));
    comm_leave(entered_s);
    if (request->handle) comm_count_in_flight(request);
    flight_state_is(request->flight, request->handle ? FLIGHT_STARTED : FLIGHT_DONE);
    if (call->op == COMM_SEND && group->size > 1 && request->backend != &comm_hops)
        group_count_message(group, COMM_SEND, call->peer, (int64_t)bytes);
    if (!comm_is_message(call->op) && request->backend == &comm_on_host) entry->library_calls++;
    if (request->span && !request->handle) span_close(comm_recorder(), request->span - 1);
    return OK;
}

enum status comm_all_reduce_start(const struct group *group, void *x, int64_t count, enum dtype dtype,
                                  enum comm_reduction reduction, struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_ALL_REDUCE, x, x, count, dtype, .reduction = reduction}, request);
}

enum status comm_all_gather_start(const struct group *group, const void *shard, void *full, int64_t count,
                                  enum dtype dtype, struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_ALL_GATHER, shard, full, count, .dtype = dtype}, request);
}

enum status comm_reduce_scatter_start(const struct group *group, const void *full, void *shard, int64_t count,
                                      enum dtype dtype, struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_REDUCE_SCATTER, full, shard, count, dtype, .reduction = COMM_SUM},
                 request);
}

enum status comm_broadcast_start(const struct group *group, void *x, int64_t count, enum dtype dtype, int root,
                                 struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_BROADCAST, x, x, count, dtype, .peer = root}, request);
}

enum status comm_reduce_start(const struct group *group, void *x, int64_t count, enum dtype dtype,
                              enum comm_reduction reduction, int root, struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_REDUCE, x, x, count, dtype, reduction, .peer = root}, request);
}

enum status comm_all_to_all_start(const struct group *group, const void *from, void *to, int64_t count,
                                  enum dtype dtype, struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_ALL_TO_ALL, from, to, count, .dtype = dtype}, request);
}

enum status comm_send_start(const struct group *group, const void *x, int64_t count, enum dtype dtype, int to, int tag,
                            struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_SEND, x, NULL, count, dtype, .peer = to, .tag = tag}, request);
}

enum status comm_recv_start(const struct group *group, void *x, int64_t count, enum dtype dtype, int from, int tag,
                            struct comm_request *request) {
    return begin(group, &(struct comm_call){COMM_RECV, NULL, x, count, dtype, .peer = from, .tag = tag}, request);
}

enum status comm_barrier_start(const struct group *group, struct comm_request *request) {
    return begin(group, &(struct comm_call){.op = COMM_BARRIER, .dtype = UINT8}, request);
}
