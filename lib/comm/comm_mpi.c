/* The MPI backend: on host memory, every operation is MPI's own nonblocking one; but what
 * goes by hops (comm_hops.c).
 *
 * Same bits. IEEE addition is commutative but not associative, so a sum depends on the order in which the ranks are
 * combined, and on nothing else. Open MPI's nonblocking collectives (libnbc) follow a tree fixed by group size, rank
 * and message size, and never by who arrives first; an in-place all_reduce is a reduction to one rank and a broadcast,
 * so that every rank gets the very same bits. test_comm_bits.c holds both. (A library that reduces in order of arrival
 * would break promise 1.)
 *
 * What breaks: MPI counts are `int`. Larger buffers are refused below; gradient buckets and shards are far smaller. */
#include "lib/comm/comm_mpi.h"
#include "lib/comm/comm_hops.h"

#include <limits.h>

/* The limit holds for the whole buffer, since libraries multiply count by rank in an int. */
static enum status check_count(const struct group *group, const struct comm_call *call) {
    bool parts = call->op == COMM_ALL_GATHER || call->op == COMM_REDUCE_SCATTER || call->op == COMM_ALL_TO_ALL;
    int64_t limit = INT_MAX / (parts ? group->size : 1);
    if (call->count <= limit) return OK;
    return FAIL(E_COMM, "%s of %lld elements for each of the %d ranks of group %s is more than MPI takes in one call "
                "(%lld); split the buffer, for example with a smaller --bucket-mb",
                comm_op_name(call->op), (long long)call->count, group->size, group->name, (long long)limit);
}

static int start_all_gather(const struct group *group, const struct comm_call *call, MPI_Request *request) {
    int count = (int)call->count;
    MPI_Datatype type = mpi_type(call->dtype);
    const char *place = (char *)call->to + (size_t)group->rank * (size_t)count * dtype_size(call->dtype);
    const void *from = call->from == place ? MPI_IN_PLACE : call->from;
    return MPI_Iallgather(from, count, type, call->to, count, type, mpi_comm_of(group->communicator), request);
}

/* MPI wants IN_PLACE at the root and the buffer as a source elsewhere. */
static int start_reduce(const struct group *group, const struct comm_call *call, MPI_Request *request) {
    bool root = group->rank == call->peer;
    return MPI_Ireduce(root ? MPI_IN_PLACE : call->from, root ? call->to : NULL, (int)call->count,
                       mpi_type(call->dtype), mpi_reduction(call->dtype, call->reduction), call->peer,
                       mpi_comm_of(group->communicator), request);
}

static int start_call(const struct group *group, const struct comm_call *call, MPI_Request *request) {
    MPI_Comm comm = mpi_comm_of(group->communicator);
    MPI_Datatype type = mpi_type(call->dtype);
    int count = (int)call->count;
    switch (call->op) {
    case COMM_ALL_REDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, call->to, count, type, mpi_reduction(call->dtype, call->reduction), comm,
                              request);
    case COMM_ALL_GATHER: return start_all_gather(group, call, request);
    case COMM_REDUCE_SCATTER:
        return MPI_Ireduce_scatter_block(call->from, call->to, count, type, mpi_reduction(call->dtype, call->reduction),
                                         comm, request);
    case COMM_BROADCAST: return MPI_Ibcast(call->to, count, type, call->peer, comm, request);
    case COMM_REDUCE: return start_reduce(group, call, request);
    case COMM_ALL_TO_ALL: return MPI_Ialltoall(call->from, count, type, call->to, count, type, comm, request);
    case COMM_SEND: return MPI_Isend(call->from, count, type, call->peer, call->tag, comm, request);
    case COMM_RECV: return MPI_Irecv(call->to, count, type, call->peer, call->tag, comm, request);
    default: return MPI_Ibarrier(comm, request);
    }
}

static enum status mpi_start(const struct comm_call *call, struct comm_request *request) {
    const struct group *group = request->group;
    if (!group->communicator) return FAIL(E_INTERNAL, "%s before comm_start", comm_op_name(call->op));
    TRY(check_count(group, call));
    const struct comm_algorithm *algorithm;
    TRY(comm_hops_choose(group, call, &algorithm));
    if (algorithm) return comm_hops_start(algorithm, call, request);
    MPI_Request started;
    int code = start_call(group, call, &started);
    if (code != MPI_SUCCESS) return mpi_failed(request, "start", code);
    request->handle = mpi_request_handle(started);
    return OK;
}

static enum status mpi_test(struct comm_request *request, bool *done) {
    MPI_Request running = mpi_request_of(request->handle);
    int flag = 0;
    int code = MPI_Test(&running, &flag, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) {
        request->handle = NULL;
        return mpi_failed(request, "finish", code);
    }
    *done = flag;
    request->handle = flag ? NULL : mpi_request_handle(running);
    return OK;
}

const struct comm_backend comm_mpi = {.name = "mpi", .start = mpi_start, .test = mpi_test};
