/* Shared by the MPI files of this folder, comm_mpi*.c. Only this file includes <mpi.h>.
 *
 * Handles: an MPI_Request is a pointer in Open MPI and an int in MPICH. Outside these files it is a `void *`, which can
 * hold either. A valid handle is never all zero bits, so NULL means "none". */
#pragma once

#include "lib/comm/transport/host_transport.h"

#if defined __has_include && !__has_include(<mpi.h>)
#error "no mpi.h: tools/install-deps installs Open MPI; or build without MPI: make MPI=0"
#endif
#include <mpi.h>

_Static_assert(sizeof(MPI_Request) <= sizeof(void *) && sizeof(MPI_Comm) <= sizeof(void *),
               "handles must fit a pointer");

static inline void *mpi_request_handle(MPI_Request request) {
    void *handle = NULL;
    memcpy(&handle, &request, sizeof request);
    return handle;
}
static inline MPI_Request mpi_request_of(void *handle) {
    MPI_Request request;
    memcpy(&request, &handle, sizeof request);
    return request;
}
static inline void *mpi_comm_handle(MPI_Comm comm) {
    void *handle = NULL;
    memcpy(&handle, &comm, sizeof comm);
    return handle;
}
static inline MPI_Comm mpi_comm_of(void *handle) {
    MPI_Comm comm;
    memcpy(&comm, &handle, sizeof comm);
    return comm;
}

/* comm_mpi_text.c. mpi_error_text: MPI's text for an error code, in static storage. mpi_type: the type of a dtype. */
const char *mpi_error_text(int code);
MPI_Datatype mpi_type(enum dtype);

/* Call an MPI function that must succeed; on failure the message has its name and MPI's reason. */
#define MPI_TRY(name, ...)                                                                                             \
    do {                                                                                                               \
        int mpi_code_ = name(__VA_ARGS__);                                                                             \
        if (mpi_code_ != MPI_SUCCESS) return FAIL(E_COMM, #name ": %s", mpi_error_text(mpi_code_));                    \
    } while (0)

/* comm_mpi.c: the transport's messages, of n elements at `at`, and its collectives. @errors E_COMM @collective{none,
 * but mpi_collective} */
int mpi_send(void *communicator, const void *at, int n, enum dtype, int to, int tag, void **handle);
int mpi_receive(void *communicator, void *at, int n, enum dtype, int from, int tag, void **handle);
int mpi_test(void **handle, bool *done);
enum status mpi_collective(const struct comm_call *, struct comm_request *);
/* comm_mpi_mail.c: the transport's mail; *from: the sender's world rank. @errors E_COMM, E_MEMORY @collective{world, to
 * open and to close} */
enum status mpi_mail_open(void);
void mpi_mail_close(void);
void mpi_mail_send(int to, const struct mail *);
bool mpi_mail_receive(int *from, struct mail *);

/* comm_mpi_reduce.c: the reductions that MPI does not have. @errors E_COMM  @collective{none} */
enum status mpi_reductions_open(void);
void mpi_reductions_close(void);
MPI_Op mpi_reduction(enum dtype, enum comm_reduction);
