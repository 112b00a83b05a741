/* NCCL as the transport of device memory: every operation is queued on a stream, and the host does not wait for it.
 *
 *   compute stream  ..kernels.. |a   ..kernels that do not touch the buffer..   waits for b ..kernels..
 *   lane's stream               waits for a;  NCCL operation |b
 *
 * start records a and b; comm_wait only puts the wait for b into the compute stream, and returns. A lane (comm_lanes.h)
 * is a communicator with its own stream, of the highest priority, so that communication that is ready does not wait for
 * other kernels that are ready.
 *
 * If a peer does not join an operation, it never ends on this GPU. The host notices this where it waits for the GPU
 * (comm_wait_device). It keeps the event b of each operation in a list, oldest first, until it has happened, so the
 * roll call asks for the first operation in the list.
 *
 * When the ranks of an elastic job change (comm.h), no rank joins an operation in flight any more. Waits for the GPU
 * and for NCCL end with E_EPOCH, and to abort the communicators ends their kernels. The next epoch makes new
 * communicators (comm_use_device.c). NCCL may report a peer's death before the next epoch opens: if one opens soon,
 * this is no failure.
 *
 * Sums of bf16 and fp16 are NCCL's own: two numbers are added in fp32 and rounded, as comm_reduce.c does, in an order
 * that the topology fixes. Every rank gets the same bits, and so does the same job on the same machines each time,
 * unless NCCL may choose another algorithm (NCCL_ALGO). For a maximum or minimum, floats are encoded as integers,
 * because NCCL drops NaN (comm_extrema.cu).
 *
 * Source: NCCL user guide, "CUDA Stream Semantics", "Collective Operations", "Point-to-point communication"
 * (all-to-all). */
#include "lib/comm/transport/comm_extrema.h"
#include "lib/comm/transport/comm_lanes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct flight {
    cudaEvent_t event;                 /* b */
    struct comm_request what;
    double started_s;
    bool waited, landed;               /* the caller has waited; b has happened */
    struct flight *next;
};

static const struct device *device;
static struct flight *flights, **flights_end = &flights, *unused;   /* in flight, oldest first */
static bool broken;                    /* aborted after a deadline, or after the ranks have changed */
static double next_look_s;
static enum status failure;            /* the error that the last check of the communicators found */
static char failure_text[512];
static const double look_every_s = 10e-3;

/* ---- flights ---- */
static enum status take_flight(struct flight **out) {
    struct flight *f = unused;
    if (f) {
        unused = f->next;
    } else {
        f = calloc(1, sizeof *f);
        if (!f) return FAIL(E_MEMORY, "no memory to note an operation");
        cudaError_t error = cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming);
        if (error != cudaSuccess) {
            free(f);
            return FAIL(E_DEVICE, "cudaEventCreateWithFlags: %s", cudaGetErrorString(error));
        }
    }
    *f = (struct flight){.event = f->event};
    *out = f;
    return OK;
}

static void give_flight(struct flight *f) {
    f->next = unused;
    unused = f;
}

static void unlink_first(void) {
    struct flight *f = flights;
    flights = f->next;
    if (!flights) flights_end = &flights;
    f->landed = true;
    if (f->waited) give_flight(f);
}

/* Remove finished operations, oldest first, up to the first unfinished one. The next wait for the device reports a
 * failed GPU. */
static void sweep(void) {
    while (flights && cudaEventQuery(flights->event) == cudaSuccess) unlink_first();
}

/* ---- starting ---- */
static ncclDataType_t nccl_type(const struct comm_call *call) {
    bool order = call->reduction != COMM_SUM;            /* encoded: integers */
    switch (call->dtype) {
    case FP64: return order ? ncclInt64 : ncclFloat64;
    case FP32: return order ? ncclInt32 : ncclFloat32;
    case BF16: return ncclBfloat16;
    case FP16: return ncclFloat16;
    case INT32: return ncclInt32;
    default: return ncclUint8;
    }
}
static ncclRedOp_t nccl_op(enum comm_reduction r) {
    return r == COMM_SUM ? ncclSum : r == COMM_MAX ? ncclMax : ncclMin;
}

static ncclResult_t all_to_all(const struct group *group, const struct comm_call *call, const struct lane *lane) {
    size_t count = (size_t)call->count, bytes = count * dtype_size(call->dtype);
    ncclResult_t result = ncclGroupStart();
    for (int r = 0; r < group->size && result == ncclSuccess; r++) {
        result =
            ncclSend((const char *)call->from + (size_t)r * bytes, count, nccl_type(call), r, lane->comm, lane->stream);
        if (result == ncclSuccess)
            result =
                ncclRecv((char *)call->to + (size_t)r * bytes, count, nccl_type(call), r, lane->comm, lane->stream);
    }
    ncclResult_t ended = ncclGroupEnd();
    return result == ncclSuccess ? ended : result;
}

static ncclResult_t issue(const struct group *group, const struct comm_call *call, const struct lane *lane) {
    size_t n = (size_t)call->count;
    ncclDataType_t type = nccl_type(call);
    ncclRedOp_t op = nccl_op(call->reduction);
    ncclComm_t c = lane->comm;
    cudaStream_t s = lane->stream;
    switch (call->op) {
    case COMM_ALL_REDUCE: return ncclAllReduce(call->from, call->to, n, type, op, c, s);
    case COMM_ALL_GATHER: return ncclAllGather(call->from, call->to, n, type, c, s);
    case COMM_REDUCE_SCATTER: return ncclReduceScatter(call->from, call->to, n, type, op, c, s);
    case COMM_BROADCAST: return ncclBroadcast(call->from, call->to, n, type, call->peer, c, s);
    case COMM_REDUCE:
        return ncclReduce(call->from, group->rank == call->peer ? call->to : NULL, n, type, op, call->peer, c, s);
    case COMM_ALL_TO_ALL: return all_to_all(group, call, lane);
    case COMM_SEND: return ncclSend(call->from, n, type, call->peer, c, s);
    case COMM_RECV: return ncclRecv(call->to, n, type, call->peer, c, s);
    default: return ncclInvalidUsage;
    }
}

/* Is the call a maximum or minimum of floats, which are encoded as integers? */
static bool is_encoded(const struct comm_call *call) {
    bool reduces = call->op == COMM_ALL_REDUCE || call->op == COMM_REDUCE;
    return reduces && call->reduction != COMM_SUM && (call->dtype == FP32 || call->dtype == FP64);
}

static enum status check_extrema(const struct group *group, const struct comm_call *call) {
    if (call->reduction == COMM_SUM || (call->dtype != BF16 && call->dtype != FP16)) return OK;
    return FAIL(E_INTERNAL, "%s of %s in group %s for its maximum or minimum: NCCL would drop NaN; use fp32",
                comm_op_name(call->op), dtype_name(call->dtype), group->name);
}

static enum status queue_call(const struct group *group, const struct comm_call *call, struct lane *lane) {
    int bytes = (int)dtype_size(call->dtype);
    if (is_encoded(call)) TRY(extrema_encode(call->to, bytes, call->count, call->reduction, lane->stream));
    TRY(lane_settle(group, lane, issue(group, call, lane), comm_op_name(call->op)));
    return is_encoded(call) ? extrema_decode(call->to, bytes, call->count, lane->stream) : OK;
}

static enum status fly(const struct comm_call *call, const struct group *group, struct lane *lane, struct flight *f) {
    CUDA_TRY(cudaEventRecord(f->event, (cudaStream_t)device->stream));
    CUDA_TRY(cudaStreamWaitEvent(lane->stream, f->event, 0));
    span_mark(comm_recorder(), f->what.span - 1, SPAN_BEGINS, lane->stream);
    TRY(queue_call(group, call, lane));
    span_mark(comm_recorder(), f->what.span - 1, SPAN_ENDS, lane->stream);
    CUDA_TRY(cudaEventRecord(f->event, lane->stream));      /* the wait above still waits for the older record */
    return OK;
}

static enum status nccl_start(const struct comm_call *call, struct comm_request *request) {
    const struct group *group = request->group;
    struct lane *lane;
    struct flight *f = NULL;
    if (broken)
        return FAIL(E_COMM, "%s in group %s after a deadline has passed: NCCL's communicators were broken off",
                    comm_op_name(call->op), group->name);
    TRY(lane_of(group, call, &lane));
    TRY(check_extrema(group, call));
    sweep();
    TRY(take_flight(&f));
    f->what = *request;
    f->started_s = clock_s();
    enum status status = fly(call, group, lane, f);
    if (status != OK) {
        give_flight(f);
        return status;
    }
    *flights_end = f;
    flights_end = &f->next;
    request->handle = f;
    return OK;
}

static enum status nccl_test(struct comm_request *request, bool *done) {
    struct flight *f = request->handle;
    request->handle = NULL;
    *done = f->waited = true;
    if (f->landed) give_flight(f);
    else CUDA_TRY(cudaStreamWaitEvent((cudaStream_t)device->stream, f->event, 0));
    return OK;
}

/* ---- checking the communicators ---- */
static enum status look_at_all(void) {
    for (struct group *g = group_first(); g; g = g->next) TRY(lanes_check(g));
    return OK;
}

static void nccl_progress(void) {
    sweep();
    double now_s = clock_s();
    if (now_s < next_look_s || failure != OK || broken) return;
    next_look_s = now_s + look_every_s;
    failure = look_at_all();
    if (failure == OK) return;
    snprintf(failure_text, sizeof failure_text, "%s", status_message());
    status_clear();
}

static enum status nccl_check(void) { return failure == OK ? OK : FAIL(failure, "%s", failure_text); }

static const struct comm_request *nccl_oldest(double *started_s) {
    sweep();
    if (!flights) return NULL;
    *started_s = flights->started_s;
    return &flights->what;
}

/* Abort all communicators as one NCCL group (NCCL 2.22), because one abort may wait for the whole GPU, and so for
 * kernels of communicators that are not aborted yet. */
static void nccl_give_up(void) {
    ncclGroupStart();
    for (struct group *g = group_first(); g; g = g->next) lanes_abort(g);
    ncclGroupEnd();
    broken = true;
}

/* ---- ranks that share a GPU ---- */
enum { SHARES_FROM = 23000 };                        /* NCCL 2.30.0 */
#define SHARES_IF "NCCL_MULTI_RANK_GPU_ENABLE"

int comm_nccl_version(void) {
    int version = 0;
    return ncclGetVersion(&version) == ncclSuccess ? version : 0;
}

bool comm_nccl_shares_gpus(void) {
    const char *wanted = getenv(SHARES_IF);
    return comm_nccl_version() >= SHARES_FROM && wanted && !strcmp(wanted, "1");
}

static enum status refuse_shared(void) {
    int v = comm_nccl_version();
    return FAIL(E_CONFIG,
                "ranks share a GPU (%d ranks on this host, %d GPUs), and NCCL %d.%d.%d needs one for each%s; %suse "
                "--comm mpi, or start one rank per GPU",
                comm_local_size(), device_cuda_count(), v / 10000, v / 100 % 100, v % 100,
                v < SHARES_FROM ? " (from 2.30 on " SHARES_IF "=1 lets them share)" : ", as " SHARES_IF " is not 1",
                v < SHARES_FROM ? "" : "set it to 1 on all ranks, ");
}

/* ---- open and close ---- */
static enum status nccl_open(const struct device *wanted) {
    bool shared;
    device = wanted;
    broken = false;
    failure = OK;
    CUDA_TRY(cudaSetDevice(device->index));
    TRY(comm_device_shared(device, &shared));
    return shared && !comm_nccl_shares_gpus() ? refuse_shared() : OK;
}

/* The operations of the group have ended, because its communicators are gone. */
static void nccl_group_close(struct group *group) {
    lanes_close(group);
    for (struct flight **at = &flights; *at;) {
        struct flight *f = *at;
        if (f->what.group != group) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        f->landed = true;
        if (f->waited) give_flight(f);
    }
    flights_end = &flights;
    while (*flights_end) flights_end = &(*flights_end)->next;
}

static void nccl_close(void) {
    while (unused) {
        struct flight *f = unused;
        unused = f->next;
        cudaEventDestroy(f->event);
        free(f);
    }
}

const struct comm_device_transport comm_nccl = {
    .backend = {"nccl", nccl_start, nccl_test, .queues = true}, .open = nccl_open, .close = nccl_close,
    .group_open = lanes_open, .messages_open = lanes_open_ring, .group_close = nccl_group_close,
    .progress = nccl_progress, .check = nccl_check, .oldest = nccl_oldest, .give_up = nccl_give_up,
    .leave = nccl_give_up,
};

/* ---- which GPU does each rank use? ---- */
struct gpu_card { char host[64], uuid[16]; };

static enum status fill_card(const struct device *wanted, struct gpu_card *card) {
    struct cudaDeviceProp properties;
    CUDA_TRY(cudaGetDeviceProperties(&properties, wanted->index));
    memcpy(card->uuid, &properties.uuid, sizeof card->uuid);
    gethostname(card->host, sizeof card->host - 1);
    return OK;
}

/* A rank that cannot identify its GPU still takes part, so that the other ranks do not hang. */
enum status comm_device_shared(const struct device *wanted, bool *shared) {
    int n = comm_world_size();
    struct gpu_card mine = {{0}, {0}}, *all = calloc((size_t)n, sizeof *all);
    *shared = false;
    if (wanted->kind == DEVICE_CPU) return free(all), OK;
    enum status status = all ? fill_card(wanted, &mine) : FAIL(E_MEMORY, "no memory for the GPUs of %d ranks", n);
    status = fail_agree(group_world(), status);
    if (status == OK) status = comm_all_gather(group_world(), &mine, all, sizeof mine, UINT8);
    for (int a = 0; a < n && status == OK; a++)
        for (int b = 0; b < a; b++) *shared |= memcmp(&all[a], &all[b], sizeof mine) == 0;
    free(all);
    return status;
}
