/* Takes a device into use and out of use: chooses the transport of its memory, and prepares all groups.
 *
 * A group gets the transport's data (an NCCL communicator, or a second MPI communicator) as soon as both the group and
 * the device are in use, in a call of all its members. All ranks create groups in the same order, so a walk along the
 * list of groups is collective. */
#include "lib/comm/comm_device.h"

static enum comm_transport transport_in_use;

static const struct comm_device_transport *device_transport_of(enum comm_transport transport) {
#ifdef TRIVIUM_CUDA
    return transport == COMM_NCCL ? &comm_nccl : transport == COMM_STAGED ? &comm_staged : NULL;
#else
    return (void)transport, NULL;
#endif
}

void comm_device_close(void) {
    const struct comm_device_transport *transport = comm_device_transport();
    for (struct group *g = group_first(); g && transport; g = g->next) comm_device_group_close(g);
    if (transport) transport->close();
    if (comm_device()) pinned_close(comm_device());
    comm_device_set(NULL, NULL);
}

/* Let the work that was queued after the operations run now, on incomplete data, because its memory is still there. */
void comm_device_leave(void) {
    if (comm_device_transport()) comm_device_transport()->leave();
    if (comm_device() && comm_device()->finish(comm_device()) != OK) status_clear();   /* the next call reports it */
    comm_device_close();
}

static enum status open_groups(void) {
    enum status status = OK;
    for (struct group *g = group_first(); g; g = g->next) {
        enum status opened = comm_device_group_open(g);  /* a failed rank continues, because the others wait for it */
        if (status == OK) status = opened;
    }
    return status;
}

enum status comm_use_device(const struct device *wanted, enum comm_transport transport) {
    const struct device *device = comm_device();
    const struct comm_device_transport *current = comm_device_transport();
    if (wanted->kind == DEVICE_CPU) return OK;           /* operations on host memory need no change */
    if (transport == COMM_ALONE) {
        if (current && device != wanted)
            return FAIL(E_INTERNAL, "%s has groups open; %s cannot be used at the same time", device->name,
                        wanted->name);
        comm_device_set(wanted, current);
        return OK;
    }
    int32_t news = !(current && device == wanted && transport_in_use == transport);
    TRY(comm_all_reduce(group_world(), &news, 1, INT32, COMM_MAX));  /* one rank may have a new device when another has
                                                                      * not */
    if (!news) return OK;
    comm_device_close();
    const struct comm_device_transport *next = device_transport_of(transport);
    enum status status = fail_agree(group_world(), next->open(wanted));
    if (status != OK) {
        next->close();
        return status;
    }
    comm_device_set(wanted, next);
    transport_in_use = transport;
    status = fail_agree(group_world(), open_groups());
    if (status != OK) comm_device_close();
    return status;
}
