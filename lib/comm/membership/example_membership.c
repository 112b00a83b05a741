/* ranks: 2
 *
 * Ranks that continue when one of them is killed: they sum over all ranks, 1000 times a second, until FILE exists.
 *
 *   TRIVIUM_EXE=build/example_membership build/trivium launch -n 4 --comm-transport direct --elastic 2 --spares 1 FILE
 *
 * Kill a rank, and see which ranks sum now; kill more. Then `touch FILE`. Under MPI the death of a rank ends the job.
 * So under MPI, or without FILE, the program ends after three sums. */
#include "lib/comm/comm.h"
#include "lib/comm/membership/membership.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static const struct membership_shape any_number = {.n_inner = 1, .n_outer = 1};     /* every rank is a replica */
static int32_t n_sums, n_epochs;             /* sums of this rank; epochs that it has seen */

/* Sum 1 over all ranks, and whether the file exists. *stop: it exists for some rank. */
static enum status sum(const char *file, bool *stop) {
    const struct timespec nap = {0, 1000000};
    int32_t x[2] = {1, file ? access(file, F_OK) == 0 : n_sums == 2};
    TRY(comm_all_reduce(group_world(), x, 2, INT32, COMM_SUM));
    *stop = x[1] > 0;
    n_sums++;
    if (x[0] != comm_world_size()) return FAIL(E_INTERNAL, "%d ranks have counted %d", comm_world_size(), (int)x[0]);
    nanosleep(&nap, NULL);
    return OK;
}

static void say_who(void) {
    if (comm_is_rank_0()) printf("epoch %d: %d ranks, after %d sums\n", (int)n_epochs, comm_world_size(), (int)n_sums);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *file = argc > 1 ? argv[1] : NULL;
    enum status status = comm_start(&argc, &argv);
    bool stop = false;
    if (status == OK) {
        comm_epoch_shape(&any_number);
        say_who();
    }
    while (!stop && (status == OK || status == E_EPOCH)) {
        if (status == OK) {
            status = sum(file, &stop);
            continue;
        }
        comm_epoch_leave();
        status = comm_epoch_enter();
        n_epochs++;
        if (status == OK) say_who();
    }
    if (status != OK) status_report();
    comm_finish(status == OK, 1);
    return status == OK ? 0 : 1;
}
