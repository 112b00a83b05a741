/* Checks before a long job: faults of hosts, devices, network and disk, found in seconds instead of hours.
 *
 *   trivium train --save DIR ...            looks at DIR before the first step (preflight_train)
 *   trivium launch -n N preflight [--save DIR] [train's options]      the table: hosts, what differs, how
 *                                                                     fast */
#pragma once

#include "lib/base/status.h"
#include "lib/device/device.h"
#include "lib/run/plan.h"
#include <stdio.h>

/** argv: words after `preflight`, train's options; it reads save, device, comm, threads and comm-timeout. @return the
 *  exit code: 0, also if something looks wrong but works; 1: the folder or the network fails; 2: a bad request, or
 *  ranks of different programs or libraries.
 *  @collective{every process of the job} */
int preflight_main(int argc, char **argv);

/** Can all ranks write the folder, and has it room? Prints ranks, hosts, device and room in one line, with a warning if
 *  only one checkpoint fits. Nothing to do without --save. In a later epoch of an elastic job a folder that cannot be
 *  written, or has no room, is a warning.
 *  @collective{world} @errors as checkpoint_ready and checkpoint_room, the same on every rank and reported */
enum status preflight_train(const struct plan *, const struct device *);

/** Bytes of a checkpoint: each parameter and its two moments, in the precision of the optimizer. */
double preflight_checkpoint_bytes(const struct plan *);

/** *hash: XXH3 of this process's program, whether its file still has a name or not. @errors E_IO  @collective{none} */
enum status preflight_program(uint64_t *hash);

/* ---- a rank's report ---- */

struct preflight_rank {
    char host[64], device[96], library[128];
    uint64_t program;                        /* hash of the executable */
    int32_t threads, allowed_cores, cores;   /* OpenMP threads; cores it may run on; of the host */
    int32_t gpu_shared;                      /* its GPU is another rank's as well */
};

/** Print a line for each finding ("wrong: ..."), in words for people. Pure.
 *  *differ: programs or libraries are not the same on all ranks. @return how many lines */
int preflight_findings(const struct preflight_rank *, int n_ranks, FILE *, bool *differ);

/** "2 hosts: n01 x 4, n02 x 4", at most `most` by name. *n_hosts as well. Ranks of a host need not be neighbors. */
void preflight_hosts(const struct preflight_rank *, int n_ranks, int most, char *out, size_t size, int *n_hosts);
