/* The backend of a group of one rank. A sum over one rank is its own term, so no operation sends or waits.
 *
 * Only a gather, scatter or all-to-all into another buffer copies data. Callers therefore never ask whether a group has
 * one rank; with tp=1 or dp=1 an operation costs a function call.
 *
 * A message to the rank itself is the exception: it must be held until it is received (a pipeline whose stages are all
 * on one rank). The transport holds it in memory. */
#include "lib/comm/comm_backend.h"

static enum status self_start(const struct comm_call *call, struct comm_request *request) {
    if (comm_is_message(call->op)) return comm_on_host.start(call, request);
    size_t bytes = (size_t)call->count * dtype_size(call->dtype);
    if (call->from != call->to && bytes) memmove(call->to, call->from, bytes);
    return OK;
}

static enum status self_test(struct comm_request *request, bool *done) { return comm_on_host.test(request, done); }

const struct comm_backend comm_self = {.name = "self", .start = self_start, .test = self_test};
