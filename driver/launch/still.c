#include "driver/launch/still.h"

#include <signal.h>
#include <stdio.h>

bool still_too_long(struct still *x, unsigned beat, bool should_move, double now_s, double gap_s, double hang_s) {
    bool moves = beat != x->beat || !should_move || x->moved_s == 0;
    if (gap_s > 1) x->moved_s += gap_s;      /* the agent was stopped itself */
    bool hangs = !moves && now_s - x->moved_s > hang_s;
    if (moves || hangs) *x = (struct still){beat, now_s};
    return hangs;
}

void still_kill(int slot, pid_t pid, double hang_s) {
    fprintf(stderr, "trivium: process %d has not moved for %g s, and is killed\n", slot, hang_s);
    kill(pid, SIGKILL);
}
