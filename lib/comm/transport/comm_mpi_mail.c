/* Control messages, on a duplicate of the world's communicator, with one send buffer for each kind and peer.
 *
 * MPI_Isend needs its buffer until the message is sent, which may never happen if the peer is stopped. So each (kind,
 * peer) has its own buffer, and a second message of this kind to this peer is dropped while the first is in flight:
 * messages cannot pile up, and no rank waits. The messages are small enough to be sent eagerly, before the receiver has
 * posted its receive. */
#include "lib/comm/transport/comm_mpi.h"

#include <stdlib.h>

struct letter { MPI_Request request; struct mail mail; };

static MPI_Comm control = MPI_COMM_NULL;
static struct letter *outbox; /* [world size][N_MAIL_KINDS] */

enum status mpi_mail_open(void) {
    if (comm_world_size() == 1) return OK;
    int n = comm_world_size() * N_MAIL_KINDS;
    MPI_TRY(MPI_Comm_dup, MPI_COMM_WORLD, &control);
    outbox = calloc((size_t)n, sizeof *outbox);
    if (!outbox) return FAIL(E_MEMORY, "no memory for the control messages of %d ranks", comm_world_size());
    for (int i = 0; i < n; i++) outbox[i].request = MPI_REQUEST_NULL;
    return OK;
}

static bool has_left(struct letter *letter) {
    int done = 1;
    return MPI_Test(&letter->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done;
}

/* If a letter is still being sent, because its peer is leaving and reads no more mail, the buffers stay: MPI may still
 * read them. */
void mpi_mail_close(void) {
    if (control == MPI_COMM_NULL) return;
    bool all_left = true;
    for (int i = 0; i < comm_world_size() * N_MAIL_KINDS; i++) all_left &= has_left(&outbox[i]);
    if (all_left) free(outbox);
    outbox = NULL;
    MPI_Comm_free(&control);
}

void mpi_mail_send(int to, const struct mail *mail) {
    if (!outbox) return;
    struct letter *letter = &outbox[to * N_MAIL_KINDS + mail->kind];
    if (!has_left(letter)) return;
    letter->mail = *mail;
    /* a failure means that the peer is gone, which the roll call will find out */
    MPI_Isend(&letter->mail, (int)sizeof letter->mail, MPI_BYTE, to, 0, control, &letter->request);
}

bool mpi_mail_receive(int *from, struct mail *mail) {
    if (control == MPI_COMM_NULL) return false;
    int arrived = 0;
    MPI_Status status;
    if (MPI_Iprobe(MPI_ANY_SOURCE, 0, control, &arrived, &status) != MPI_SUCCESS || !arrived) return false;
    *from = status.MPI_SOURCE;
    /* does not block: the probe has found the message, and no other thread receives */
    return MPI_Recv(mail, (int)sizeof *mail, MPI_BYTE, *from, 0, control, MPI_STATUS_IGNORE) == MPI_SUCCESS;
}
