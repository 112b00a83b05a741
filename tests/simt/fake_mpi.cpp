/* A GPU continues while its host is inside MPI, but the fakes have no thread of their own. So MPI calls that poll
 * also let the streams run, by way of MPI's profiling interface: MPI_Test here calls PMPI_Test and then pokes
 * the streams (MPI 3.1, section 14.2).
 *
 * Before a call that blocks until all members arrive comes a barrier that polls and pokes. Otherwise a rank could
 * block in MPI_Comm_split while another rank waits for that rank's GPU. */
#include "tests/simt/fake.h"
#include "tests/simt/fake_mpi.h"

#include <sched.h>

MPI_Comm fake_world = MPI_COMM_NULL;

static void meet(MPI_Comm comm) {
    MPI_Request request;
    if (PMPI_Ibarrier(comm, &request) != MPI_SUCCESS) return;
    for (int done = 0; !done;) {
        if (PMPI_Test(&request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return;
        if (done) return;
        fake_poke();
        sched_yield();
    }
}

extern "C" {

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided) {
    int code = PMPI_Init_thread(argc, argv, required, provided);
    if (code == MPI_SUCCESS) code = PMPI_Comm_dup(MPI_COMM_WORLD, &fake_world);
    return code;
}
int MPI_Finalize(void) {
    meet(MPI_COMM_WORLD);
    PMPI_Comm_free(&fake_world);
    return PMPI_Finalize();
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status) {
    int code = PMPI_Test(request, done, status);
    fake_poke();
    return code;
}
int MPI_Iprobe(int source, int tag, MPI_Comm comm, int *found, MPI_Status *status) {
    int code = PMPI_Iprobe(source, tag, comm, found, status);
    fake_poke();
    return code;
}
int MPI_Improbe(int source, int tag, MPI_Comm comm, int *found, MPI_Message *message, MPI_Status *status) {
    int code = PMPI_Improbe(source, tag, comm, found, message, status);
    fake_poke();
    return code;
}

int MPI_Comm_split(MPI_Comm comm, int colour, int key, MPI_Comm *out) {
    meet(comm);
    return PMPI_Comm_split(comm, colour, key, out);
}
int MPI_Comm_split_type(MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *out) {
    meet(comm);
    return PMPI_Comm_split_type(comm, type, key, info, out);
}
int MPI_Comm_dup(MPI_Comm comm, MPI_Comm *out) {
    meet(comm);
    return PMPI_Comm_dup(comm, out);
}

}
