/* The transport moves bytes between the processes of a job: MPI (comm_mpi*.c), or the job itself (direct/direct.c). A
 * build without MPI has comm_without_mpi.c in the first one's place.
 *
 * A transport has ranks, communicators (some ranks in an order, whose messages are apart from all others'), messages
 * and mail. Everything else is the same over each of them: groups, ledgers, deadlines, checks, and collectives, which
 * are tables of messages (comm_hops.c). Only MPI has collectives of its own as well.
 *
 * Messages of two ranks in one communicator with one tag are received in the order in which they were sent. Only
 * collective functions wait. A message's failure is a code, not an error line, since it may appear in the wait for
 * another message: the caller turns the code into a sentence with text(). Private to this folder. */
#pragma once

#include "lib/comm/comm_backend.h"
#include "lib/comm/transport/comm_mail.h"
#include <stdatomic.h>

/* local_cores: those of all ranks of this host. host[r]: the host of world rank r, numbered from 0; owned, or NULL */
struct comm_place { int rank, size, local_rank, local_size, local_cores, *host, epoch; };

/* Words of memory that all ranks of this host share. */
struct host_shared { _Atomic(uint64_t) *word; void *window; };

enum { TRANSPORT_OK = 0, TRANSPORT_CHANGED = 1 << 20 };   /* CHANGED: the job's ranks have; no failure */

struct host_transport {
    const char *name;
    /* "Open MPI v4.1.4": its name and version. */
    void (*version)(char *text, size_t bytes);

    /* ---- the world ---- @collective{job} @errors E_COMM, E_MEMORY */
    /* argc and argv: main's, or NULL. Errors are returned from here on instead of ending the process. */
    enum status (*start)(int *argc, char ***argv, struct comm_place *);
    /* Rank 0's bytes, for all. */
    enum status (*share)(void *bytes, int n);
    void (*finish)(void);
    void (*kill)(int code);                    /* ends every process of the job; does not return. @collective{none} */

    /* ---- communicators ---- @errors E_COMM, E_MEMORY */
    /* A communicator of the ranks with my colour, ordered by key; its size and my rank in it. colour < 0: of
     * this rank alone.
     * @collective{job; GROUP_ALL_ALONE: none} */
    enum status (*split)(int colour, int key, void **communicator, int *size, int *rank);
    /* members[0 .. size-1]: the world rank of every member. @collective{none} */
    enum status (*members)(void *communicator, int size, int *members);
    /* The same ranks again, apart from what is sent in the first. @collective{communicator} */
    enum status (*duplicate)(void *communicator, void **out);
    void (*close)(void **communicator);        /* @collective{communicator} */

    /* ---- memory of a host ---- n_words zeros. @collective{the host} @errors E_COMM, E_MEMORY */
    enum status (*shared_make)(int n_words, struct host_shared *out);
    void (*shared_free)(struct host_shared *);

    /* ---- messages ---- @return TRANSPORT_OK, or what text() words  @collective{none} */
    /* The elements stay the caller's until *handle, which is set here, is NULL again. */
    int (*send)(void *communicator, const void *at, int n, enum dtype, int to, int tag, void **handle);
    int (*receive)(void *communicator, void *at, int n, enum dtype, int from, int tag, void **handle);
    int (*test)(void **handle, bool *done);    /* a look; also moves everything else forward */
    const char *(*text)(int code);

    /* Start a collective, whose handle is tested as a message's. NULL: it has none, and all go by hops.
     * @errors E_COMM */
    enum status (*collective)(const struct comm_call *, struct comm_request *);

    /* ---- mail (comm_mail.h) ---- */
    enum status (*mail_open)(void);            /* @collective{world} @errors E_COMM, E_MEMORY */
    void (*mail_close)(void);                  /* @collective{world} */
    void (*mail_send)(int to, const struct mail *);
    bool (*mail_receive)(int *from, struct mail *);
};

extern const struct host_transport transport_mpi, transport_own;
/* comm_world.c: the job's transport, NULL before comm_start; and this process's place, rank 0 of 1 until then. */
const struct host_transport *comm_host_transport(void);
void comm_host_transport_is(const struct host_transport *);
struct comm_place *comm_world_place(void);

/* comm_on_host.c: the line of a request that its transport has failed to `verb`. @errors E_COMM, always */
enum status transport_failed(const struct comm_request *, const char *verb, int code);
