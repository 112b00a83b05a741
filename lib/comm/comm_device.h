/* Device memory in lib/comm: the transport of each operation. Private to this folder.
 *
 * A transport takes operations on device memory in groups of more than one rank: comm_nccl.c or comm_staged.c. It
 * promises:
 *
 *   start   the operation comes after all work issued so far on the compute stream
 *   test    returns "done" as soon as later work on the compute stream is ordered after the operation. The data may
 *           still be in flight, because the GPU waits for them and not the host
 *
 * Groups of one rank need no transport (comm_self_device.c), except in tests (comm_device_serve_one). Operations on
 * host memory go to the group's own backend. */
#pragma once

#include "lib/comm/comm_backend.h"
#include "lib/device/device.h"

struct comm_device_transport {
    struct comm_backend backend;
    enum status (*open)(const struct device *);      /* @collective{world} */
    void (*close)(void);
    enum status (*group_open)(struct group *);       /* sets group->side. @collective{group} */
    /* Prepare the group for messages with tags first .. group->n_tags - 1. NULL: the transport needs no preparation.
     * @collective{group} */
    enum status (*messages_open)(struct group *, int first);
    void (*group_close)(struct group *);             /* @collective{group} */
    void (*progress)(void);                          /* never blocks */
    enum status (*check)(void);                      /* has any started operation failed? */
    /* This rank's oldest unfinished operation, or NULL; *started_s is when it was started. */
    const struct comm_request *(*oldest)(double *started_s);
    void (*give_up)(void);                            /* end the operations in flight, without the peers */
    void (*leave)(void);                        /* after the ranks have changed: end the operations, clear failures */
};
extern const struct comm_device_transport comm_staged, comm_nccl;
extern const struct comm_backend comm_self_device;

/** The backend of this call, chosen by its buffers. @errors E_INTERNAL: one buffer is the device's and one the host's,
 *  or there is no transport */
enum status comm_backend_of(const struct group *, const struct comm_call *, const struct comm_backend **out);

/* comm_device.c: the device in use and its transport, NULL before comm_use_device */
const struct device *comm_device(void);
const struct comm_device_transport *comm_device_transport(void);
void comm_device_set(const struct device *, const struct comm_device_transport *);
/* For tests, before comm_use_device: collectives of groups of one rank use the transport, so that one GPU is enough to
 * run NCCL. Messages from a rank to itself do not use it. */
void comm_device_serve_one(bool);
enum status comm_device_group_open(struct group *);  /* @collective{group} @errors as of comm_use_device */
void comm_device_group_close(struct group *);        /* @collective{group} */
void comm_device_progress(void);
void comm_device_close(void);     /* comm_use_device.c: take the device out of use, in all groups. @collective{world} */
void comm_device_leave(void);                        /* comm_device_close after ranks have changed. @collective{none} */
const struct comm_request *comm_device_oldest(double *started_s);   /* or NULL; *started_s: by clock_s */
/* comm_wait.c: after the deadline, find the missing ranks and abort the operations on the device. @errors E_TIMEOUT
 * @collective{none} */
enum status comm_device_late(const char *what);
void comm_device_abort(void);
int comm_nccl_version(void);                         /* such as 22105; 0: this build has no NCCL */
bool comm_nccl_shares_gpus(void);                    /* does this rank's NCCL let ranks share a GPU? */

/* comm_pinned.c: pinned host memory, which is kept for reuse; sizes are powers of two. */
struct pinned { char *at; int64_t bytes; struct pinned *next; };
/** At least `bytes`. @errors E_MEMORY */
enum status pinned_take(const struct device *, int64_t bytes, struct pinned **out);
void pinned_give(struct pinned *);
/** Free all pinned memory that is not in use. */
void pinned_close(const struct device *);
