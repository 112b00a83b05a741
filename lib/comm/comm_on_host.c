/* The backend of groups of more than one rank, on host memory: by hops (comm_hops.c), or by the transport's
 * collectives. */
#include "lib/comm/transport/host_transport.h"
#include "lib/comm/hops/comm_hops.h"

#include <limits.h>

/* The transport's counts are `int`. The limit holds for the whole buffer, since libraries multiply count by rank. */
static enum status check_count(const struct group *group, const struct comm_call *call) {
    bool parts = call->op == COMM_ALL_GATHER || call->op == COMM_REDUCE_SCATTER || call->op == COMM_ALL_TO_ALL;
    int64_t limit = INT_MAX / (parts ? group->size : 1);
    if (call->count <= limit) return OK;
    return FAIL(E_COMM, "%s of %lld elements for each of the %d ranks of group %s is more than one call takes (%lld); "
                "split the buffer, for example with a smaller --bucket-mb",
                comm_op_name(call->op), (long long)call->count, group->size, group->name, (long long)limit);
}

enum status transport_failed(const struct comm_request *request, const char *verb, int code) {
    const struct group *group = request->group;
    if (code == TRANSPORT_CHANGED) return E_EPOCH;
    return FAIL(E_COMM, "%s could not %s %s #%lld of group %s (%d ranks): %s", comm_host_transport()->name, verb,
                comm_op_name(request->op), (long long)request->sequence, group->name, group->size,
                comm_host_transport()->text(code));
}

static enum status start_message(const struct comm_call *call, struct comm_request *request) {
    const struct host_transport *transport = comm_host_transport();
    void *comm = request->group->communicator;
    int n = (int)call->count, peer = call->peer, tag = call->tag;
    int code = call->op == COMM_SEND ? transport->send(comm, call->from, n, call->dtype, peer, tag, &request->handle)
                                     : transport->receive(comm, call->to, n, call->dtype, peer, tag, &request->handle);
    return code == TRANSPORT_OK ? OK : transport_failed(request, "start", code);
}

static enum status start(const struct comm_call *call, struct comm_request *request) {
    const struct comm_algorithm *algorithm;
    if (!request->group->communicator) return FAIL(E_INTERNAL, "%s before comm_start", comm_op_name(call->op));
    TRY(check_count(request->group, call));
    TRY(comm_hops_choose(request->group, call, &algorithm));
    if (algorithm) return comm_hops_start(algorithm, call, request);
    return comm_is_message(call->op) ? start_message(call, request) : comm_host_transport()->collective(call, request);
}

static enum status test(struct comm_request *request, bool *done) {
    int code = comm_host_transport()->test(&request->handle, done);
    return code == TRANSPORT_OK ? OK : transport_failed(request, "finish", code);
}

const struct comm_backend comm_on_host = {.name = "host", .start = start, .test = test};
