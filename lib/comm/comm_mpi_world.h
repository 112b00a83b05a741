/* The parts of MPI that are not operations: entering, leaving, splitting. Speaks no MPI type. Private to this
 * folder. */
#ifndef TRIVIUM_COMM_MPI_WORLD_H
#define TRIVIUM_COMM_MPI_WORLD_H

#include "lib/base/status.h"
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* local_cores: those of all ranks of this host. host[r]: the host of world rank r, numbered from 0; owned, or NULL */
struct mpi_place { int rank, size, local_rank, local_size, local_cores, *host; };

/* comm_world.c: this process's; one rank of one before mpi_world_start. */
struct mpi_place *comm_world_place(void);

/** Enter MPI. Errors are returned from here on instead of ending the process. argc and argv: main's, or NULL.
 *  @collective{job} @errors E_COMM */
enum status mpi_world_start(int *argc, char ***argv, struct mpi_place *);
/** Rank 0's bytes, for all. @collective{job} @errors E_COMM */
enum status mpi_world_share(void *bytes, int n);
void mpi_world_finish(void);         /* @collective{job} */
void mpi_world_kill(int code);       /* ends every process of the job; does not return */

/** A communicator of the ranks with my colour, ordered by key, its size and my rank in it; colour < 0: of this rank
 *  alone.
 *  @collective{job} @errors E_COMM */
enum status mpi_split(int colour, int key, void **communicator, int *size, int *rank);
/** members[0 .. size-1]: the world rank of every member of a communicator. @collective{none} @errors E_COMM,
 *  E_MEMORY */
enum status mpi_members(void *communicator, int size, int *members);
/** The same ranks again, apart from what is sent in the first. @collective{communicator} @errors E_COMM */
enum status mpi_duplicate(void *communicator, void **out);
/** Words of memory that all ranks of this host share, zero. @collective{the host} @errors E_COMM */
struct mpi_shared { _Atomic(uint64_t) *word; void *window; };
enum status mpi_shared_make(int n_words, struct mpi_shared *out);
void mpi_shared_free(struct mpi_shared *);
void mpi_close(void **communicator); /* @collective{communicator} */
/** "Open MPI v4.1.4": the library's name and version. @collective{none} */
void mpi_library(char *text, size_t bytes);

#endif
