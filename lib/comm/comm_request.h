/* The storage of a request, for callers that embed one. Only lib/comm uses the fields. */
#pragma once

#include "lib/comm/comm.h"

struct comm_backend;

struct comm_request {
    void *handle;              /* the backend's data (an MPI_Request); NULL: not in flight */
    const struct comm_backend *backend;
    struct group *group;
    enum comm_op op;
    int peer;                  /* destination or source of a message, as a rank of the group */
    int span;                  /* 1 + its span (comm_record); 0: it is not recorded */
    int64_t flight;            /* number of its row in the flight record; 0: none */
    int64_t sequence;          /* number of the collective in its group, or of the message on this rank, from 0 */
    bool counted;              /* in comm_in_flight */
};
