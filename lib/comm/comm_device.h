/* Device memory in lib/comm: the transport of each operation. Private to this folder.
 *
 * A transport takes operations on device memory in groups of more than one rank: comm_nccl.c or comm_staged.c. It
 * promises:
 *
 *   start   the operation comes after all work issued so far on the compute stream
 *   test    says "done" as soon as later work on the compute stream is ordered after the operation. The data may
 *           still be in flight: the GPU waits for them, the host need not
 *
 * Groups of one need no transport (comm_self_device.c), and get one only where a test asks. Host memory goes to the
 * group's own backend as if there were no device. */
#ifndef TRIVIUM_COMM_DEVICE_H
#define TRIVIUM_COMM_DEVICE_H

#include "lib/comm/comm_backend.h"
#include "lib/device/device.h"

struct comm_device_transport {
    struct comm_backend backend;
    enum status (*open)(const struct device *);      /* @collective{world} */
    void (*close)(void);
    enum status (*group_open)(struct group *);       /* sets group->side. @collective{group} */
    /* Prepare the group for messages with tags first .. group->n_tags - 1. NULL: not needed. @collective{group} */
    enum status (*messages_open)(struct group *, int first);
    void (*group_close)(struct group *);             /* @collective{group} */
    void (*progress)(void);                          /* never blocks */
    enum status (*check)(void);                      /* has any started operation failed? */
    /* This rank's oldest unfinished operation, or NULL; and when it was started. */
    const struct comm_request *(*oldest)(double *started_s);
    void (*give_up)(void);                            /* end what is in flight, without the peers */
    void (*leave)(void);                              /* the ranks have changed: forget it, too */
};
extern const struct comm_device_transport comm_staged, comm_nccl;
extern const struct comm_backend comm_self_device;

/** The backend of this call: by its buffers. @errors E_INTERNAL: one buffer here and one there, or no transport */
enum status comm_backend_of(const struct group *, const struct comm_call *, const struct comm_backend **out);

/* comm_device.c: the device in use and its transport, NULL before comm_use_device; a group is born or dies */
const struct device *comm_device(void);
const struct comm_device_transport *comm_device_transport(void);
void comm_device_set(const struct device *, const struct comm_device_transport *);
/* For tests, before comm_use_device: collectives of groups of one go to the transport, too, so that one GPU is enough
 * to run NCCL. Messages to oneself do not. */
void comm_device_serve_one(bool);
enum status comm_device_group_open(struct group *);  /* @collective{group} @errors as of comm_use_device */
void comm_device_group_close(struct group *);        /* @collective{group} */
void comm_device_progress(void);
void comm_device_close(void);                        /* comm_use_device.c: its end, in all groups. @collective{world} */
void comm_device_leave(void);                        /* the same after the ranks have changed. @collective{none} */
const struct comm_request *comm_device_oldest(double *started_s); /* not ended, *started_s by clock_s; or NULL */
/* comm_wait.c: after the deadline: find the missing ranks, and abort the operations on the device. @errors
 * E_TIMEOUT  @collective{none} */
enum status comm_device_late(const char *what);
void comm_device_abort(void);
int comm_nccl_version(void);                         /* 22105; 0: this build has none */
bool comm_nccl_shares_gpus(void);                    /* does this rank's NCCL let ranks share a GPU? */

/* comm_pinned.c: pinned host memory that is kept for the next user; sizes are powers of two. */
struct pinned { char *at; int64_t bytes; struct pinned *next; };
/** At least `bytes`. @errors E_MEMORY */
enum status pinned_take(const struct device *, int64_t bytes, struct pinned **out);
void pinned_give(struct pinned *);
/** Return all that has been given back. */
void pinned_close(const struct device *);

#endif
