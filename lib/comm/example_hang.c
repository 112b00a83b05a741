/* ranks: 4
 *
 * A job that hangs on purpose, as an input for `trivium postmortem`. In step 5 rank 1 does what the argument names.
 *
 *   TRIVIUM_EXE=build/example_hang build/trivium launch -n 4 missing | swapped | late | none
 *
 *   missing   rank 1 does not call the step's second collective, and continues to compute
 *   swapped   rank 1 calls the step's two collectives in the other order
 *   late      rank 1 is stopped, as if by a debugger or by a machine that swaps
 *
 * The other ranks make correct calls, and wait until the deadline of 2 s ends the job. */
#include "lib/comm/comm.h"
#include "lib/comm/flight/flight.h"

#include <signal.h>
#include <string.h>
#include <time.h>

enum { N = 40000, BAD_STEP = 5, STEPS = 8 };
static float x[N];
static const struct timespec until_all_have_called = {0, 500000000};     /* because a transport may fail at once */

static enum status first(void) { return comm_all_reduce(group_world(), x, N, FP32, COMM_SUM); }
static enum status second(void) { return comm_barrier(group_world()); }

static void compute_for_ever(void) {
    for (;;) comm_progress();
}

static enum status step(int n, const char *what) {
    bool bad = comm_world_rank() == 1 && n == BAD_STEP;
    flight_step_is(&(struct flight_step){.step = n});
    if (bad && strcmp(what, "late") == 0) raise(SIGSTOP);
    if (bad && strcmp(what, "swapped") == 0) {
        nanosleep(&until_all_have_called, NULL);
        TRY(second());
        return first();
    }
    TRY(first());
    if (bad && strcmp(what, "missing") == 0) compute_for_ever();
    return second();
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "none";
    enum status status = comm_start(&argc, &argv);
    comm_configure(&(struct comm_settings){.timeout_s = 2});
    for (int n = 1; n <= STEPS && status == OK; n++) status = step(n, what);
    if (status != OK) status_report();
    comm_finish(status == OK, 1);
    return status == OK ? 0 : 1;
}
