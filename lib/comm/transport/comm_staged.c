/* Device memory through the host: GPU -> pinned memory -> MPI -> pinned memory -> GPU. Ranks may share a GPU.
 *
 * One operation, and its waits:
 *
 *   compute stream  ..kernels.. |mark                                          |waits for "landed" ..kernels..
 *   download stream             waits for mark; copy to pinned |"fetched"
 *   host                                            "fetched"? MPI operation ... done?
 *   upload stream                                                            copy to the GPU |"landed"
 *
 * The host advances each operation from state to state in comm_progress and in every comm_wait. comm_wait returns when
 * the upload has been issued and the compute stream waits for it. Until then the host waits, as MPI moves nothing by
 * itself, and the GPU continues with earlier work.
 *
 * Order. MPI matches collectives by the order in which they are started, which must be the same on all members.
 * Downloads may end in another order, so operations enter MPI strictly in the order of the calls, of all groups
 * together: an operation waits for the one before it, even if its data have been fetched. Staged operations use
 * separate communicators (a duplicate for each group), so that operations on host memory, which start at once, are not
 * matched with them.
 *
 * There is no deadlock: a download waits for kernels, and the compute stream waits only for uploads that are already
 * issued.
 *
 * What breaks: pinned memory that is reused before the copy from it has run. It is given back when "landed" has
 * happened, not when comm_wait returns.
 *
 * Source: MPI 3.1, section 5.12 (nonblocking collectives are matched in the order of their calls); CUDA programming
 * guide, "Asynchronous Concurrent Execution". */
#include "lib/comm/comm_device.h"
#include "lib/base/integer.h"
#include "lib/comm/transport/host_transport.h"
#include "lib/device/cuda_try.h"

#include <stdio.h>
#include <stdlib.h>

enum state { FETCHING, ON_THE_WIRE, LANDING, FAILED };

struct staged {
    enum state state;
    struct comm_call call;             /* on device memory */
    struct comm_request what;          /* for the roll call: operation, group, sequence */
    struct comm_request wire;          /* MPI's */
    double started_s;
    struct pinned *pinned;
    char *from, *to;                   /* in pinned memory; one buffer for an operation in place */
    cudaEvent_t event;                 /* fetched; later landed */
    bool waited;                       /* comm_wait has returned for the caller's request */
    enum status failure;
    char text[512];                    /* why */
    struct staged *next;
};

static const struct device *device;
static cudaStream_t download, upload;
static struct staged *pending, **pending_end = &pending;   /* FETCHING and ON_THE_WIRE, in the order of the calls */
static struct staged *landing;                             /* on the upload stream, or failed */
static struct staged *unused;                              /* with their events */

/* ---- the bytes of each buffer ---- */
static int64_t part_bytes(const struct comm_call *call) { return call->count * (int64_t)dtype_size(call->dtype); }

struct extent { int64_t down, up; bool in_place; };  /* bytes from the GPU and to it; does one pinned buffer suffice? */

static struct extent extent_of(const struct group *group, const struct comm_call *call) {
    int64_t part = part_bytes(call), whole = part * group->size;
    bool root = call->peer == group->rank;
    switch (call->op) {
    case COMM_ALL_GATHER: return (struct extent){part, whole, true};
    case COMM_REDUCE_SCATTER: return (struct extent){whole, part, false};
    case COMM_ALL_TO_ALL: return (struct extent){whole, whole, false};
    case COMM_BROADCAST: return (struct extent){root ? part : 0, root ? 0 : part, true};
    case COMM_REDUCE: return (struct extent){part, root ? part : 0, true};
    case COMM_SEND: return (struct extent){part, 0, true};
    case COMM_RECV: return (struct extent){0, part, true};
    default: return (struct extent){part, part, true};     /* all_reduce */
    }
}

static enum status take_pinned(struct staged *s, struct extent e) {
    int64_t bytes = e.in_place ? max64(e.down, e.up) : round_up(e.down, 64) + e.up;
    TRY(pinned_take(device, bytes, &s->pinned));
    s->to = s->pinned->at + (e.in_place ? 0 : round_up(e.down, 64));
    /* the shard of a gather is fetched to its place in the whole, as MPI requires */
    s->from = s->pinned->at + (s->call.op == COMM_ALL_GATHER ? s->what.group->rank * part_bytes(&s->call) : 0);
    return OK;
}

/* ---- the records ---- */
static void forget(struct staged *s) {
    pinned_give(s->pinned);
    s->pinned = NULL;
    s->next = unused;
    unused = s;
}

static enum status take_record(struct staged **out) {
    struct staged *s = unused;
    if (s) {
        unused = s->next;
    } else {
        s = calloc(1, sizeof *s);
        if (!s) return FAIL(E_MEMORY, "no memory to note an operation");
        cudaError_t error = cudaEventCreateWithFlags(&s->event, cudaEventDisableTiming);
        if (error != cudaSuccess) {
            free(s);
            return FAIL(E_DEVICE, "cudaEventCreateWithFlags: %s", cudaGetErrorString(error));
        }
    }
    *s = (struct staged){.event = s->event};
    *out = s;
    return OK;
}

static enum status happened(cudaEvent_t event, bool *yes) {
    cudaError_t error = cudaEventQuery(event);
    *yes = error == cudaSuccess;
    if (error == cudaSuccess || error == cudaErrorNotReady) return OK;
    return FAIL(E_DEVICE, "%s: a copy failed: %s", device->name, cudaGetErrorString(error));
}

/* ---- from state to state ---- */
static enum status enter_mpi(struct staged *s) {
    struct comm_call call = s->call;
    call.from = s->from;
    call.to = s->to;
    s->wire = s->what;
    s->wire.group = s->what.group->side;
    s->wire.backend = &comm_on_host;
    s->state = ON_THE_WIRE;
    return comm_on_host.start(&call, &s->wire);
}

static enum status start_upload(struct staged *s) {
    int64_t bytes = extent_of(s->what.group, &s->call).up;
    s->state = LANDING;
    if (bytes > 0) CUDA_TRY(cudaMemcpyAsync(s->call.to, s->to, (size_t)bytes, cudaMemcpyHostToDevice, upload));
    CUDA_TRY(cudaEventRecord(s->event, upload));
    return OK;
}

static enum status push(struct staged *s, bool may_enter) {
    bool done = false;
    if (s->state == FETCHING && may_enter) {
        done = extent_of(s->what.group, &s->call).down == 0;
        if (!done) TRY(happened(s->event, &done));
        if (done) TRY(enter_mpi(s));
    }
    if (s->state == ON_THE_WIRE) {
        done = !s->wire.handle;
        if (!done) TRY(s->wire.backend->test(&s->wire, &done));
        if (done) TRY(start_upload(s));
    }
    return OK;
}

/* Keep a failure until the comm_wait of its operation. */
static void note_failure(struct staged *s, enum status status) {
    s->state = FAILED;
    s->failure = status;
    snprintf(s->text, sizeof s->text, "%s", status_message());
    status_clear();
}

static void sweep(void) {
    for (struct staged **at = &landing; *at;) {
        struct staged *s = *at;
        bool done = s->state == FAILED;
        /* the next wait for the device reports the error */
        if (s->waited && !done && happened(s->event, &done) != OK) status_clear(), done = true;
        if (s->waited && done) {
            *at = s->next;
            forget(s);
        } else {
            at = &s->next;
        }
    }
}

static void staged_progress(void) {
    bool may_enter = true;
    for (struct staged **at = &pending; *at;) {
        struct staged *s = *at;
        enum status status = push(s, may_enter);
        if (status != OK) note_failure(s, status);
        may_enter &= s->state != FETCHING;
        if (s->state == LANDING || s->state == FAILED) {
            *at = s->next;
            s->next = landing;
            landing = s;
        } else {
            at = &s->next;
        }
    }
    pending_end = &pending;
    while (*pending_end) pending_end = &(*pending_end)->next;
    sweep();
}

/* ---- the backend ---- */
static enum status fetch(struct staged *s, struct extent e) {
    CUDA_TRY(cudaEventRecord(s->event, (cudaStream_t)device->stream));
    CUDA_TRY(cudaStreamWaitEvent(download, s->event, 0));
    /* kernels may still read the memory that the upload will write */
    if (e.up > 0) CUDA_TRY(cudaStreamWaitEvent(upload, s->event, 0));
    if (e.down > 0) CUDA_TRY(cudaMemcpyAsync(s->from, s->call.from, (size_t)e.down, cudaMemcpyDeviceToHost, download));
    if (e.down > 0) CUDA_TRY(cudaEventRecord(s->event, download)); /* the waits above still wait for the older record */
    return OK;
}

static enum status staged_start(const struct comm_call *call, struct comm_request *request) {
    struct staged *s = NULL;
    struct extent e = extent_of(request->group, call);
    TRY(take_record(&s));
    s->call = *call;
    s->what = *request;
    s->started_s = clock_s();
    enum status status = take_pinned(s, e);
    if (status == OK) status = fetch(s, e);
    if (status != OK) {
        forget(s);
        return status;
    }
    request->handle = s;
    *pending_end = s;
    pending_end = &s->next;
    staged_progress();
    return OK;
}

static enum status staged_test(struct comm_request *request, bool *done) {
    struct staged *s = request->handle;
    staged_progress();
    *done = s->state == LANDING || s->state == FAILED;
    if (!*done) return OK;
    s->waited = true;
    request->handle = NULL;
    if (s->state == FAILED) return FAIL(s->failure, "%s", s->text);
    if (extent_of(s->what.group, &s->call).up > 0)
        CUDA_TRY(cudaStreamWaitEvent((cudaStream_t)device->stream, s->event, 0));
    return OK;
}

/* ---- open and close ---- */
static enum status staged_open(const struct device *wanted) {
    device = wanted;
    CUDA_TRY(cudaSetDevice(device->index));
    CUDA_TRY(cudaStreamCreateWithFlags(&download, cudaStreamNonBlocking));
    CUDA_TRY(cudaStreamCreateWithFlags(&upload, cudaStreamNonBlocking));
    return OK;
}

/* Operations that are in flight after a deadline keep their memory: MPI and the GPU may still touch it. */
static void staged_close(void) {
    if (download) cudaStreamSynchronize(download);
    if (upload) cudaStreamSynchronize(upload);
    for (struct staged *s = landing; s; s = s->next) s->waited = true;
    sweep();
    while (unused) {
        struct staged *s = unused;
        unused = s->next;
        cudaEventDestroy(s->event);
        free(s);
    }
    if (download) cudaStreamDestroy(download);
    if (upload) cudaStreamDestroy(upload);
    download = upload = NULL;
}

static enum status staged_group_open(struct group *group) {
    struct group *twin = calloc(1, sizeof *twin);
    enum status status = twin ? OK : FAIL(E_MEMORY, "no memory for the second communicator of group %s", group->name);
    void *communicator = NULL;
    enum status made = comm_host_transport()->duplicate(group->communicator, &communicator);
    if (status == OK) status = made;
    if (status != OK) {
        if (communicator) comm_host_transport()->close(&communicator);
        free(twin);
        return status;
    }
    *twin = *group;
    twin->communicator = communicator;
    group->side = twin;
    return OK;
}

static void staged_group_close(struct group *group) {
    struct group *twin = group->side;
    bool in_use = false;
    for (struct staged *s = pending; s; s = s->next) in_use |= s->what.group == group;
    if (in_use) return;                                   /* MPI still uses it after a deadline; the job will end */
    comm_host_transport()->close(&twin->communicator);
    free(twin);
}

/* The messages have been dropped. Wait for the copies, and forget all operations. */
static void staged_leave(void) {
    cudaStreamSynchronize(download);
    cudaStreamSynchronize(upload);
    *pending_end = landing;
    while (pending) {
        struct staged *s = pending;
        pending = s->next;
        forget(s);
    }
    pending_end = &pending;
    landing = NULL;
}

static enum status staged_check(void) {
    for (struct staged *s = landing; s; s = s->next)
        if (s->state == FAILED) return FAIL(s->failure, "%s", s->text);
    return OK;
}

static const struct comm_request *staged_oldest(double *started_s) {
    if (!pending) return NULL;
    *started_s = pending->started_s;
    return &pending->what;
}

static void staged_give_up(void) {}                          /* MPI has no way to take an operation back */

const struct comm_device_transport comm_staged = {
    .backend = {"staged", staged_start, staged_test, .queues = false}, .open = staged_open, .close = staged_close,
    .group_open = staged_group_open, .group_close = staged_group_close, .progress = staged_progress,
    .check = staged_check, .oldest = staged_oldest, .give_up = staged_give_up,
    .leave = staged_leave,
};
