/* The blocking forms: start, and wait. */
#include "lib/comm/comm_backend.h"

enum status comm_barrier(const struct group *group) {
    struct comm_request request;
    TRY(comm_barrier_start(group, &request));
    return comm_wait(&request);
}

enum status comm_all_reduce(const struct group *group, void *x, int64_t count, enum dtype dtype,
                            enum comm_reduction reduction) {
    struct comm_request request;
    TRY(comm_all_reduce_start(group, x, count, dtype, reduction, &request));
    return comm_wait(&request);
}

enum status comm_all_gather(const struct group *group, const void *shard, void *full, int64_t count, enum dtype dtype) {
    struct comm_request request;
    TRY(comm_all_gather_start(group, shard, full, count, dtype, &request));
    return comm_wait(&request);
}

enum status comm_reduce_scatter(const struct group *group, const void *full, void *shard, int64_t count,
                                enum dtype dtype) {
    struct comm_request request;
    TRY(comm_reduce_scatter_start(group, full, shard, count, dtype, &request));
    return comm_wait(&request);
}

enum status comm_all_to_all(const struct group *group, const void *from, void *to, int64_t count, enum dtype dtype) {
    struct comm_request request;
    TRY(comm_all_to_all_start(group, from, to, count, dtype, &request));
    return comm_wait(&request);
}

enum status comm_broadcast(const struct group *group, void *x, int64_t count, enum dtype dtype, int root) {
    struct comm_request request;
    TRY(comm_broadcast_start(group, x, count, dtype, root, &request));
    return comm_wait(&request);
}

enum status comm_idle(const struct group *group) {
    comm_wait_standing_by(true);
    enum status status = comm_barrier(group);
    comm_wait_standing_by(false);
    return status;
}
