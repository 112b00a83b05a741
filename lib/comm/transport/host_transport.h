/* The transport moves bytes between the processes of a job: by MPI (comm_mpi*.c), or directly (direct/direct.c). A
 * build without MPI has comm_without_mpi.c in place of comm_mpi*.c.
 *
 * A transport has ranks, communicators (an ordered list of ranks, whose messages match no others), messages and mail.
 * Groups, ledgers, deadlines, checks, and collectives as tables of messages (comm_hops.c) are the same over every
 * transport. Only MPI also has its own collectives.
 *
 * Messages of two ranks in one communicator with one tag are received in the order in which they were sent. Only
 * collective functions block. The failure of a message is a code, not an error message, since it may appear in the wait
 * for another message; the caller turns it into a sentence with text(). Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"
#include "lib/comm/transport/comm_mail.h"
#include <stdatomic.h>

/* local_cores: of all ranks of this host. host[r]: the host of world rank r, numbered from 0; owned, or NULL */
struct comm_place { int rank, size, local_rank, local_size, local_cores, *host, epoch; };

/* Words of memory that all ranks of this host share. */
struct host_shared { _Atomic(uint64_t) *word; void *window; };

enum { TRANSPORT_OK = 0, TRANSPORT_CHANGED = 1 << 20 }; /* CHANGED: the job's ranks have changed, which is no failure */

struct host_transport {
    const char *name;
    /* The library's name and version, such as "Open MPI v4.1.4". */
    void (*version)(char *text, size_t bytes);

    /* ---- the world ---- @collective{job} @errors E_COMM, E_MEMORY */
    /* Enter the world. argc and argv: main's, or NULL. From now on errors are returned and do not end the process. */
    enum status (*start)(int *argc, char ***argv, struct comm_place *);
    /* Broadcast rank 0's bytes. */
    enum status (*share)(void *bytes, int n);
    void (*finish)(void);
    void (*kill)(int code);                    /* ends every process of the job; does not return. @collective{none} */

    /* ---- communicators ---- @errors E_COMM, E_MEMORY */
    /* Make a communicator of the ranks with this rank's colour, ordered by key. *size: its size; *rank: this rank's
     * rank in it. colour < 0: of this rank alone. @collective{job; GROUP_ALL_ALONE: none} */
    enum status (*split)(int colour, int key, void **communicator, int *size, int *rank);
    /* members[0 .. size-1]: the world rank of every member. @collective{none} */
    enum status (*members)(void *communicator, int size, int *members);
    /* A second communicator of the same ranks, whose messages match none of the first. @collective{communicator} */
    enum status (*duplicate)(void *communicator, void **out);
    void (*close)(void **communicator);        /* @collective{communicator} */

    /* ---- memory of a host ---- n_words words of zeros. @collective{the host} @errors E_COMM, E_MEMORY */
    enum status (*shared_make)(int n_words, struct host_shared *out);
    void (*shared_free)(struct host_shared *);

    /* ---- messages ---- @return TRANSPORT_OK, or a code for text() @collective{none} */
    /* The caller must keep the elements until *handle, which the call sets, is NULL again. */
    int (*send)(void *communicator, const void *at, int n, enum dtype, int to, int tag, void **handle);
    int (*receive)(void *communicator, void *at, int n, enum dtype, int from, int tag, void **handle);
    int (*test)(void **handle, bool *done);    /* check once; also advances all other operations */
    const char *(*text)(int code);

    /* Start a collective, whose handle is tested like a message's. NULL: the transport has none, so all go by hops.
     * @errors E_COMM */
    enum status (*collective)(const struct comm_call *, struct comm_request *);

    /* ---- mail (comm_mail.h) ---- */
    enum status (*mail_open)(void);            /* @collective{world} @errors E_COMM, E_MEMORY */
    void (*mail_close)(void);                  /* @collective{world} */
    void (*mail_send)(int to, const struct mail *);
    bool (*mail_receive)(int *from, struct mail *);
};

extern const struct host_transport transport_mpi, transport_own;
/* comm_world.c. comm_host_transport: the job's transport, NULL before comm_start. comm_world_place: this process's
 * place; before comm_start, rank 0 of 1. */
const struct host_transport *comm_host_transport(void);
void comm_host_transport_is(const struct host_transport *);
struct comm_place *comm_world_place(void);

/* comm_on_host.c: record the error that the transport failed to `verb` a request. @errors E_COMM, always */
enum status transport_failed(const struct comm_request *, const char *verb, int code);
