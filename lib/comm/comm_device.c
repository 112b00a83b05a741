/* Which operations are the device's, and who moves them. */
#include "lib/comm/comm_device.h"

static const struct device *device;          /* whose memory is not the host's */
static const struct comm_mover *mover;       /* of groups of more than one rank */

const struct device *comm_device(void) { return device; }
const struct comm_mover *comm_device_mover(void) { return mover; }
void comm_device_set(const struct device *now, const struct comm_mover *by) {
    device = now;
    mover = by;
}

/* ---- which backend ---- */
static bool owned(const void *at) { return at && device->owns(device, at); }

enum status comm_backend_of(const struct group *group, const struct comm_call *call, const struct comm_backend **out) {
    *out = group->backend;
    if (!device || call->count == 0 || !(owned(call->from) || owned(call->to))) return OK;
    if ((call->from && !owned(call->from)) || (call->to && !owned(call->to)))
        return FAIL(E_INTERNAL,
                    "%s in group %s between memory of %s and other memory; both buffers must be in one place",
                    comm_op_name(call->op), group->name, device->name);
    if (group->size > 1 && !mover)
        return FAIL(E_INTERNAL,
                    "%s of memory of %s in group %s (%d ranks), and nobody moves it; comm_use_device comes first",
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
