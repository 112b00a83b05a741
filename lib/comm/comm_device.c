/* Which operations are the device's, who moves them, and what happens to all groups when that is decided.
 *
 * A group gets the mover's side (an NCCL communicator, or a second MPI communicator) when it is made, or when the device comes
 * into use, whichever is later: both are moments at which all its members are there. Groups are made by the whole world in one
 * order, so walking the list of groups meets the same members everywhere. */
#include "lib/comm/comm_device.h"

static const struct device *device;          /* whose memory is not the host's */
static const struct comm_mover *mover;       /* of groups of more than one rank */
static enum comm_transport transport_in_use;

const struct device *comm_device(void) { return device; }

/* ---- which backend ---- */
static bool owned(const void *at) { return at && device->owns(device, at); }

enum status comm_backend_of(const struct group *group, const struct comm_call *call, const struct comm_backend **out) {
    *out = group->backend;
    if (!device || call->count == 0 || !(owned(call->from) || owned(call->to))) return OK;
    if ((call->from && !owned(call->from)) || (call->to && !owned(call->to)))
        return FAIL(E_INTERNAL, "%s in group %s between memory of %s and other memory; both buffers must be in one place",
                    comm_op_name(call->op), group->name, device->name);
    if (group->size > 1 && !mover)
        return FAIL(E_INTERNAL, "%s of memory of %s in group %s (%d ranks), and nobody moves it; comm_use_device comes first",
                    comm_op_name(call->op), device->name, group->name, group->size);
    *out = group->size == 1 ? &comm_self_device : &mover->backend;
    return OK;
}

/* ---- groups ---- */
enum status comm_device_group_open(struct group *group) {
    if (!mover || group->size == 1) return OK;
    TRY(mover->group_open(group));
    return group->carries_messages && mover->messages_open ? mover->messages_open(group) : OK;
}

void comm_device_group_close(struct group *group) {
    if (mover && group->side) mover->group_close(group);
    group->side = NULL;
}

enum status group_carry_messages(struct group *group) {
    bool before = group->carries_messages;
    group->carries_messages = true;
    if (before || !mover || group->size == 1 || !mover->messages_open) return OK;
    return mover->messages_open(group);
}

/* ---- in use ---- */
static const struct comm_mover *mover_of(enum comm_transport transport) {
#ifdef TRIVIUM_CUDA
    return transport == COMM_NCCL ? &comm_nccl : transport == COMM_STAGED ? &comm_staged : NULL;
#else
    return (void)transport, NULL;
#endif
}

void comm_device_close(void) {
    for (struct group *g = group_first(); g && mover; g = g->next) comm_device_group_close(g);
    if (mover) mover->close();
    mover = NULL;
    if (device) pinned_close(device);
    device = NULL;
}

static enum status open_groups(void) {
    enum status status = OK;
    for (struct group *g = group_first(); g; g = g->next) {
        enum status opened = comm_device_group_open(g);  /* a rank that has failed goes on: the others wait for it */
        if (status == OK) status = opened;
    }
    return status;
}

enum status comm_use_device(const struct device *wanted, enum comm_transport transport) {
    if (wanted->kind == DEVICE_CPU) return OK;           /* host memory all the same */
    if (transport == COMM_ALONE) {
        if (mover && device != wanted)
            return FAIL(E_INTERNAL, "%s has groups open; %s cannot be used beside it", device->name, wanted->name);
        device = wanted;
        return OK;
    }
    int32_t news = !(mover && device == wanted && transport_in_use == transport);
    TRY(comm_all_reduce(group_world(), &news, 1, INT32, COMM_MAX));  /* to one rank it may be the same GPU, to another not */
    if (!news) return OK;
    comm_device_close();
    const struct comm_mover *next = mover_of(transport);
    enum status status = fail_agree(group_world(), next->open(wanted));
    if (status != OK) {
        next->close();
        return status;
    }
    device = wanted;
    mover = next;
    transport_in_use = transport;
    status = fail_agree(group_world(), open_groups());
    if (status != OK) comm_device_close();
    return status;
}

#ifndef TRIVIUM_CUDA
enum status comm_device_shared(const struct device *wanted, bool *shared) {
    (void)wanted;
    *shared = false;
    return OK;
}
int comm_nccl_version(void) { return 0; }
#endif

/* ---- under way ---- */
void comm_device_progress(void) {
    if (mover) mover->progress();
}
enum status comm_device_check(void) { return mover ? mover->check() : OK; }
const struct comm_request *comm_device_oldest(double *started_s) { return mover ? mover->oldest(started_s) : NULL; }
void comm_device_abort(void) {
    if (mover) mover->give_up();
}
