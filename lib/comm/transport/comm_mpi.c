/* MPI as a transport: its messages, and its nonblocking collectives.
 *
 * Same bits. IEEE addition is commutative but not associative, so a sum depends on the order in which the ranks are
 * combined, and on nothing else. Open MPI's nonblocking collectives (libnbc) follow a tree fixed by group size, rank
 * and message size, and never by order of arrival; an in-place all_reduce is a reduction to one rank and a broadcast,
 * so that every rank gets the same bits. test_comm_bits.c tests both. (A library that reduces in order of arrival would
 * break promise 1.)
 *
 * What breaks: MPI counts are `int`. Larger buffers are refused (comm_on_host.c); gradient buckets and shards are far
 * smaller. */
#include "lib/comm/transport/comm_mpi.h"

static int start_all_gather(const struct group *group, const struct comm_call *call, MPI_Request *request) {
    int count = (int)call->count;
    MPI_Datatype type = mpi_type(call->dtype);
    const char *place = (char *)call->to + (size_t)group->rank * (size_t)count * dtype_size(call->dtype);
    const void *from = call->from == place ? MPI_IN_PLACE : call->from;
    return MPI_Iallgather(from, count, type, call->to, count, type, mpi_comm_of(group->communicator), request);
}

/* MPI requires MPI_IN_PLACE as the source at the root, and the buffer on other ranks. */
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
    default: return MPI_Ibarrier(comm, request);
    }
}

enum status mpi_collective(const struct comm_call *call, struct comm_request *request) {
    MPI_Request started;
    int code = start_call(request->group, call, &started);
    if (code != MPI_SUCCESS) return transport_failed(request, "start", code);
    request->handle = mpi_request_handle(started);
    return OK;
}

/* ---- messages ---- */
_Static_assert((int)MPI_SUCCESS == (int)TRANSPORT_OK, "MPI's codes are the transport's");

int mpi_send(void *communicator, const void *at, int n, enum dtype dtype, int to, int tag, void **handle) {
    MPI_Request started = MPI_REQUEST_NULL;
    int code = MPI_Isend(at, n, mpi_type(dtype), to, tag, mpi_comm_of(communicator), &started);
    *handle = code == MPI_SUCCESS ? mpi_request_handle(started) : NULL;
    return code;
}

int mpi_receive(void *communicator, void *at, int n, enum dtype dtype, int from, int tag, void **handle) {
    MPI_Request started = MPI_REQUEST_NULL;
    int code = MPI_Irecv(at, n, mpi_type(dtype), from, tag, mpi_comm_of(communicator), &started);
    *handle = code == MPI_SUCCESS ? mpi_request_handle(started) : NULL;
    return code;
}

int mpi_test(void **handle, bool *done) {
    MPI_Request running = mpi_request_of(*handle);
    int flag = 0;
    int code = MPI_Test(&running, &flag, MPI_STATUS_IGNORE);
    *done = code == MPI_SUCCESS && flag;
    *handle = code != MPI_SUCCESS || flag ? NULL : mpi_request_handle(running);
    return code;
}
