/* Checks before a long job: faults of hosts, devices, network and disk, found in seconds instead of hours.
 *
 *   trivium train --save DIR ...            looks at DIR before the first step (preflight_train)
 *   trivium launch -n N preflight [--save DIR] [train's options]      prints hosts, devices, speeds and
 *                                                                     findings */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/run/plan.h"
#include <stdio.h>

/** argv: words after `preflight`. Of train's options the command uses save, device, comm, threads and comm-timeout.
 *  @return the exit code: 0: a job can run, even if there are findings; 1: the folder or the network fails; 2: the
 *  request is bad, or ranks run different programs or libraries.
 *  @collective{every process of the job} */
int preflight_main(int argc, char **argv);

/** Check that all ranks can write the folder of --save and that a checkpoint fits. Print ranks, hosts, device and room
 *  in one line, and a warning if only one checkpoint fits. Without --save do nothing. In a later epoch of an elastic
 *  job, a folder that cannot be written or has no room is a warning.
 *  @collective{world} @errors as checkpoint_ready and checkpoint_room, the same on every rank and reported */
enum status preflight_train(const struct plan *, const struct device *);

/** Bytes of a checkpoint: each parameter and its two moments, in the precision of the optimizer. */
double preflight_checkpoint_bytes(const struct plan *);

/** *hash: XXH3 of this process's program, also if its file is deleted. @errors E_IO  @collective{none} */
enum status preflight_program(uint64_t *hash);

/* ---- a rank's report ---- */

struct preflight_rank {
    char host[64], device[96], library[128];
    uint64_t program;                        /* hash of the executable */
    int32_t threads, allowed_cores, cores;   /* OpenMP threads; cores that the rank may use; the host's cores */
    int32_t gpu_shared;                      /* another rank uses the same GPU */
};

/** Print a line for each finding ("wrong: ..."). Pure.
 *  *differ: whether ranks have different programs or libraries. @return the number of lines */
int preflight_findings(const struct preflight_rank *, int n_ranks, FILE *, bool *differ);

/** Write "2 hosts: n01 x 4, n02 x 4" to out, with at most `most` names, and count the hosts in *n_hosts. The ranks of a
 *  host need not be consecutive. */
void preflight_hosts(const struct preflight_rank *, int n_ranks, int most, char *out, size_t size, int *n_hosts);
