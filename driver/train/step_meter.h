/* This rank's counters between two moments: seconds, bytes on the wire, waits, waits for samples, parked bytes, a
 * disk's bytes. A run's
 * counters only grow, so a meter subtracts their values at its beginning. */
#pragma once

#include "lib/run/run.h"

/* After step_meter_begin the counters' values; after step_meter_end the differences. */
struct step_meter {
    double start_s;                      /* clock_s() at the beginning */
    double spent_s, data_s;              /* data_s: waits for samples of steps */
    double bytes, wait_s;                /* over all groups of the mesh: algorithm bytes sent; waits for peers */
    double sent[2];                      /* bytes of hops and messages: inside the node, to other nodes */
    int64_t parked, late;                /* bytes to host memory and back; samples that --data-ahead had not read */
    struct disk_traffic disk;            /* of the offload file; zeros without a file */
};

/** @collective{none} */
void step_meter_begin(struct step_meter *, const struct run *);
/** After step_meter_begin, once. @collective{none} */
void step_meter_end(struct step_meter *, const struct run *);
