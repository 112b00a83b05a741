/* The fakes call MPI by its profiling interface, so that their own calls do not pass through fake_mpi.cpp. */
#pragma once

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#if __has_include(<mpi.h>)
#include <mpi.h>
#else
#include <mpi/mpi.h>
#endif

/* All ranks, in a communicator apart from the program's. MPI_COMM_NULL before MPI_Init. */
extern MPI_Comm fake_world;
