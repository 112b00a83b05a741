/* Device memory in a group of one rank: copies on the compute stream, in the order of the calls. Nothing is waited for.
 *
 * A message of a rank to itself (a pipeline whose stages are all on one rank) must be held until it is received. If the
 * receive comes first, the send copies straight into its buffer. If the send comes first, the message is kept in pinned
 * host memory, since device memory cannot be allocated in the middle of a step. Both copies are on the compute stream,
 * which orders them; a mark shows when the pinned memory is free again. Messages of one group and tag are received in
 * the order in which they were sent. */
#include "lib/comm/comm_device.h"

#include <stdlib.h>

enum letter_state { SENT, AWAITED, MATCHED };    /* sent, and kept in pinned memory; received, but not sent yet; both */

struct letter {
    enum letter_state state;
    const struct group *group;
    struct comm_call call;
    struct pinned *pinned;
    struct device_mark mark;                     /* when it is done, `pinned` is free */
    struct letter *next;
};
static struct letter *letters, *spent;           /* in order of their calls; matched ones whose marks are not done */

static int64_t bytes_of(const struct comm_call *call) { return call->count * (int64_t)dtype_size(call->dtype); }

static struct letter **find(const struct comm_request *request, const struct comm_call *call, enum letter_state state) {
    struct letter **at = &letters;
    while (*at && !((*at)->state == state && (*at)->group == request->group && (*at)->call.tag == call->tag))
        at = &(*at)->next;
    return at;
}

static enum status check_size(const struct comm_request *request, const struct comm_call *sent,
                              const struct comm_call *awaited) {
    if (bytes_of(sent) == bytes_of(awaited)) return OK;
    return FAIL(E_COMM, "a message of %lld bytes to oneself in group %s (tag %d) is received as %lld bytes",
                (long long)bytes_of(sent), request->group->name, sent->tag, (long long)bytes_of(awaited));
}

/* Free the letters whose pinned memory has been read to the end. */
static void sweep(const struct device *device) {
    for (struct letter **at = &spent; *at;) {
        struct letter *l = *at;
        bool done = true;
        /* the next wait for the device reports the error */
        if (device->mark_done(device, &l->mark, &done) != OK) status_clear();
        if (!done) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        pinned_give(l->pinned);
        device->mark_fini(device, &l->mark);
        free(l);
    }
}

static enum status keep(const struct comm_call *call, const struct comm_request *request, enum letter_state state,
                        struct letter **out) {
    struct letter *l = calloc(1, sizeof *l), **at = &letters;
    if (!l) return FAIL(E_MEMORY, "no memory for a message to oneself");
    *l = (struct letter){.state = state, .group = request->group, .call = *call};
    while (*at) at = &(*at)->next;
    *at = *out = l;
    return OK;
}

static enum status send(const struct device *device, const struct comm_call *call, struct comm_request *request) {
    struct letter **place = find(request, call, AWAITED), *l = *place;
    if (l) {
        TRY(check_size(request, call, &l->call));
        l->state = MATCHED;
        return device->copy(device, l->call.to, call->from, bytes_of(call));
    }
    struct pinned *pinned;
    TRY(pinned_take(device, bytes_of(call), &pinned));
    TRY(device->download_start(device, pinned->at, call->from, bytes_of(call)));
    TRY(keep(call, request, SENT, &l));
    l->pinned = pinned;
    return OK;
}

static enum status receive(const struct device *device, const struct comm_call *call, struct comm_request *request) {
    struct letter **place = find(request, call, SENT), *l = *place;
    if (!l) {
        TRY(keep(call, request, AWAITED, &l));
        request->handle = l;
        return OK;
    }
    TRY(check_size(request, &l->call, call));
    TRY(device->upload_start(device, call->to, l->pinned->at, bytes_of(call)));
    TRY(device->mark_set(device, &l->mark));
    *place = l->next;
    l->next = spent;
    spent = l;
    return OK;
}

static enum status self_device_start(const struct comm_call *call, struct comm_request *request) {
    const struct device *device = comm_device();
    sweep(device);
    if (call->op == COMM_SEND) return send(device, call, request);
    if (call->op == COMM_RECV) return receive(device, call, request);
    return call->from == call->to ? OK : device->copy(device, call->to, call->from, bytes_of(call));
}

static enum status self_device_test(struct comm_request *request, bool *done) {
    struct letter *l = request->handle, **at = &letters;
    *done = l->state == MATCHED;
    if (!*done) return OK;
    while (*at != l) at = &(*at)->next;
    *at = l->next;
    free(l);
    request->handle = NULL;
    return OK;
}

const struct comm_backend comm_self_device = {.name = "self", .start = self_device_start, .test = self_device_test};
