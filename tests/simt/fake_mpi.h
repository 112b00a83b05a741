/* What the fakes use of MPI: the profiling interface, so that their own calls are not taken for the program's. */
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#if __has_include(<mpi.h>)
#include <mpi.h>
#else
#include <mpi/mpi.h>
#endif

/* All ranks, apart from the program's messages. MPI_COMM_NULL before MPI_Init. */
extern MPI_Comm fake_world;
