/* No process of an attempt may outlive it: a rank that still writes would be in the way of the next attempt's.
 *
 * As a rule mpirun has ended them all. But when mpirun itself is killed, its ranks are nobody's children any more, each has a process
 * group of its own, and one that is stopped never notices. So every process of this launch carries a mark in its environment, which
 * no other process has, and those are looked up in /proc (Linux). On other hosts it is Open MPI's daemon that ends its ranks when it
 * loses mpirun. */
#include "driver/launch.h"
#include "lib/base/clock.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double leaves_s = 1; /* what Open MPI starts beside a program goes a moment after it */
static const double dies_s = 10;

static char mark[64];

void launch_mark(void) {
    snprintf(mark, sizeof mark, "TRIVIUM_JOB=%ld.%.6f", (long)getpid(), clock_s());
    setenv("TRIVIUM_JOB", strchr(mark, '=') + 1, 1);
}

/* Is the mark one of the variables in this environment (NUL-terminated strings, one behind the other)? */
bool launch_mark_in(const char *environment, size_t bytes, const char *wanted) {
    size_t n = strlen(wanted) + 1;
    for (size_t at = 0; at + n <= bytes; at += strnlen(environment + at, bytes - at) + 1)
        if (memcmp(environment + at, wanted, n) == 0) return true;
    return false;
}

static bool is_marked(const char *pid) {
    enum { MOST = 1 << 20 };
    static char environment[MOST];
    char path[300];
    snprintf(path, sizeof path, "/proc/%s/environ", pid);
    FILE *f = fopen(path, "r");
    if (!f) return false; /* another user's, or gone */
    size_t n = fread(environment, 1, MOST, f); /* of a process that has ended and waits for its parent: nothing */
    fclose(f);
    return launch_mark_in(environment, n, mark);
}

/* Sends the signal (0: none) to all that are left. @return how many */
static int remains(int number) {
    int n = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry = proc ? readdir(proc) : NULL; entry; entry = readdir(proc)) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid <= 1 || pid == (long)getpid() || !is_marked(entry->d_name)) continue;
        n++;
        if (number) kill((pid_t)pid, number);
    }
    if (proc) closedir(proc);
    return n;
}

static int wait_for_them(double seconds, int number) {
    double until = clock_s() + seconds;
    int n = remains(number);
    for (; n > 0 && clock_s() < until; n = remains(number)) usleep(20000);
    return n;
}

enum status launch_end_remains(bool at_once) {
    if (!at_once && wait_for_them(leaves_s, 0) == 0) return OK;
    int n = wait_for_them(dies_s, SIGKILL);
    return n == 0 ? OK : FAIL(E_COMM, "%d processes of the job do not end, %.0f s after they were killed; look for them with ps", n, dies_s);
}
