#include "launch/agent_job.h"

#include "lib/base/program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* Set mpirun's variables, because scripts that wrap a rank read them. */
static void tell_as_mpirun_does(const struct own_job *job, int local) {
    char slot[16], on_host[16], n[16];
    snprintf(slot, sizeof slot, "%d", job->slot);
    snprintf(on_host, sizeof on_host, "%d", local);
    snprintf(n, sizeof n, "%d", job->n_slots);
    setenv("OMPI_COMM_WORLD_RANK", slot, 1);
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", on_host, 1);
    setenv("OMPI_COMM_WORLD_SIZE", n, 1);
}

void rank_become(const struct own_job *job, int local, char **words, const sigset_t *unblocked, pid_t agent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != agent) _exit(1);        /* the agent died before prctl */
    own_job_tell(job);
    tell_as_mpirun_does(job, local);
    signal(SIGUSR1, SIG_DFL);
    sigprocmask(SIG_SETMASK, unblocked, NULL);
    program_run(words);
    fprintf(stderr, "E_CONFIG agent: cannot run %s: %s\n", words[0], strerror(errno));
    _exit(2);
}
