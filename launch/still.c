#include "launch/agent_job.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

bool still_too_long(struct still *x, unsigned beat, bool should_move, double now_s, double gap_s, double hang_s) {
    bool moves = beat != x->beat || !should_move || x->moved_s == 0;
    if (gap_s > 1) x->moved_s += gap_s;      /* the agent itself was stopped */
    bool hangs = !moves && now_s - x->moved_s > hang_s;
    if (moves || hangs) *x = (struct still){beat, now_s};
    return hangs;
}

/* Reads the state letter of /proc/PID/stat. The letter follows the name, which may hold any character (proc(5)). */
static const char *what_it_does(pid_t pid) {
    char path[64], line[512];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(line, 1, sizeof line - 1, f) : 0;
    if (f) fclose(f);
    line[n] = 0;
    const char *end = strrchr(line, ')');
    switch (end && end[1] ? end[2] : 0) {
        case 'T':
        case 't': return "it is stopped";        /* by a signal; by a debugger */
        case 'R': return "it computes";
        case 'D': return "it waits for a device";
        case 'S': return "it sleeps";
        default: return "it has ended";
    }
}

void still_kill(int slot, pid_t pid, double hang_s) {
    const char *instead = what_it_does(pid);
    fprintf(stderr, "trivium: process %d has not moved for %g s (%s), and is killed\n", slot, hang_s, instead);
    kill(pid, SIGKILL);
}
