/* Ends all processes of an attempt, because a rank that still writes would disturb the next attempt.
 *
 * mpirun normally ends them all. If mpirun is killed, its ranks are orphans, each in its own process group, and stopped
 * ranks cannot detect it. So launch puts a mark into the environment of all its processes, and finds them in /proc by
 * this mark (Linux). On other hosts Open MPI's daemon ends its ranks when it loses mpirun.
 *
 * Files: mpirun removes its files and the ranks' shared memory (4 MiB per rank in /dev/shm), unless it is killed. So
 * settings place both in folders that launch makes and removes. */
#define _GNU_SOURCE /* nftw */
#include "launch/launch.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/shared.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const double dies_s = 10;

static char mark[64];

/* Folders for Open MPI's shared memory and files. */
enum { SHARED_MEMORY, FILES, N_SCRATCH };
static char scratch[N_SCRATCH][PATH_MAX]; /* "": Open MPI's default */

void launch_mark(void) {
    snprintf(mark, sizeof mark, "TRIVIUM_JOB=%ld.%.6f", (long)getpid(), clock_s());
    setenv("TRIVIUM_JOB", strchr(mark, '=') + 1, 1);
}

/* The folder lies in this user's own; in `parent` another user could make a folder of this name first. */
static void name_scratch(int which, const char *parent, const char *setting) {
    char mine[PATH_MAX - sizeof mark];
    if (getenv(setting) || access(parent, W_OK) != 0) return;
    if (shared_folder(parent, mine, sizeof mine) != OK) {
        log_warn("%s: should the job be killed, files of Open MPI stay in %s; set %s to a folder of your own",
                 status_message(), parent, setting);
        status_clear();
        return;
    }
    snprintf(scratch[which], sizeof scratch[which], "%s/mpi.%s", mine, strchr(mark, '=') + 1);
    setenv(setting, scratch[which], 1);
}

void launch_scratch_name(void) {
    name_scratch(SHARED_MEMORY, "/dev/shm", "OMPI_MCA_btl_vader_backing_directory");
    name_scratch(FILES, getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", "OMPI_MCA_orte_tmpdir_base");
}

void launch_scratch_make(void) {
    for (int k = 0; k < N_SCRATCH; k++)
        if (scratch[k][0]) mkdir(scratch[k], 0700); /* if it fails, Open MPI reports it */
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place) {
    (void)info, (void)type, (void)place;
    remove(path);
    return 0;
}

void launch_remove_tree(const char *path) { nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

void launch_scratch_remove(void) {
    for (int k = 0; k < N_SCRATCH; k++)
        if (scratch[k][0]) launch_remove_tree(scratch[k]);
}

/* Is `wanted` one of the variables in this environment (consecutive NUL-terminated strings)? */
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
    size_t n = fread(environment, 1, MOST, f); /* a zombie's is empty */
    fclose(f);
    return launch_mark_in(environment, n, mark);
}

/* Send the signal (0: none) to process `name` if it is marked. @return whether it is marked. The descriptor is opened
 * before the mark is read, so that a later process with the same number never gets the signal. A kernel before 5.3, or
 * some containers, have no such descriptors; there the check and the signal are microseconds apart. */
static bool end_marked(const char *name, int number) {
    const pid_t pid = (pid_t)strtol(name, NULL, 10);
    const int process = number ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
    const bool has_none = process < 0 && (errno == ENOSYS || errno == EPERM), marked = is_marked(name);
    if (marked && process >= 0) (void)!syscall(SYS_pidfd_send_signal, process, number, NULL, 0);
    else if (marked && number && has_none) kill(pid, number);
    if (process >= 0) close(process);
    return marked;
}

/* Send the signal (0: none) to all marked processes. @return how many there are */
static int remains(int number) {
    int n = 0;
    DIR *proc = opendir("/proc");
    for (struct dirent *entry = proc ? readdir(proc) : NULL; entry; entry = readdir(proc)) {
        long pid = strtol(entry->d_name, NULL, 10);
        if (pid > 1 && pid != (long)getpid()) n += end_marked(entry->d_name, number);
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

enum status launch_end_remains(double patience_s) {
    if (patience_s > 0 && wait_for_them(patience_s, 0) == 0) return OK;
    int n = wait_for_them(dies_s, SIGKILL);
    return n == 0 ? OK : FAIL(E_COMM, "%d processes of the job do not end, %.0f s after they were killed; look for "
                              "them with ps", n, dies_s);
}
