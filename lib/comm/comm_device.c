/* Finds the operations on device memory, and the transport that runs them. */
#include "lib/comm/comm_device.h"

static const struct device *device;          /* the device in use; never the CPU */
static const struct comm_device_transport *transport;       /* for groups of more than one rank */
static bool serves_one;                      /* and of one */

const struct device *comm_device(void) { return device; }
const struct comm_device_transport *comm_device_transport(void) { return transport; }
void comm_device_set(const struct device *now, const struct comm_device_transport *by) {
    device = now;
    transport = by;
}
void comm_device_serve_one(bool also) { serves_one = also; }

/* ---- which backend ---- */
static bool is_served(const struct group *group) { return transport && (group->size > 1 || serves_one); }
static bool owned(const void *at) { return at && device->owns(device, at); }

enum status comm_backend_of(const struct group *group, const struct comm_call *call, const struct comm_backend **out) {
    *out = group->backend;
    if (!device || call->count == 0 || !(owned(call->from) || owned(call->to))) return OK;
    if ((call->from && !owned(call->from)) || (call->to && !owned(call->to)))
        return FAIL(E_INTERNAL,
                    "%s in group %s between memory of %s and other memory; both buffers must be in one place",
                    comm_op_name(call->op), group->name, device->name);
    if (group->size > 1 && !transport)
        return FAIL(E_INTERNAL,
                    "%s of memory of %s in group %s (%d ranks), and no transport moves it; call comm_use_device first",
                    comm_op_name(call->op), device->name, group->name, group->size);
    bool to_itself = group->size == 1 && (!is_served(group) || comm_is_message(call->op));
    *out = to_itself ? &comm_self_device : &transport->backend;
    return OK;
}

/* ---- groups ---- */
enum status comm_device_group_open(struct group *group) {
    if (!is_served(group)) return OK;
    TRY(transport->group_open(group));
    bool carries = group->n_tags && group->size > 1;
    return carries && transport->messages_open ? transport->messages_open(group, 0) : OK;
}

void comm_device_group_close(struct group *group) {
    if (transport && group->side) transport->group_close(group);
    group->side = NULL;
}

enum status group_carry_messages(struct group *group, int n_tags) {
    int before = group->n_tags;
    if (n_tags <= before) return OK;
    group->n_tags = n_tags;
    return transport && group->size > 1 && transport->messages_open ? transport->messages_open(group, before) : OK;
}

#ifndef TRIVIUM_CUDA
enum status comm_device_shared(const struct device *wanted, bool *shared) {
    (void)wanted;
    *shared = false;
    return OK;
}
int comm_nccl_version(void) { return 0; }
bool comm_nccl_shares_gpus(void) { return false; }
#endif

enum status comm_nccl_fits(const struct device *wanted, bool *fits) {
    bool shared;
    int32_t may = comm_nccl_shares_gpus();
    TRY(comm_device_shared(wanted, &shared));
    TRY(comm_all_reduce(group_world(), &may, 1, INT32, COMM_MIN));
    *fits = !shared || may;
    return OK;
}

/* ---- in flight ---- */
void comm_device_progress(void) {
    if (transport) transport->progress();
}
enum status comm_device_check(void) { return transport ? transport->check() : OK; }
const struct comm_request *comm_device_oldest(double *started_s) {
    return transport ? transport->oldest(started_s) : NULL;
}
void comm_device_abort(void) {
    if (transport) transport->give_up();
}
