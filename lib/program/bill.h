/* The bill: a step's costs on one rank, counted from the same rows that run. */
#ifndef TRIVIUM_PROGRAM_BILL_H
#define TRIVIUM_PROGRAM_BILL_H

#include "lib/comm/exchange.h"
#include "lib/program/memory.h"

struct bill {
    int64_t bytes[N_ROLES];              /* peak memory */
    double flops[N_ROW_KINDS];           /* by row kind: forward, replay, backward input, backward weight */
    struct exchange *exchanges;          /* everything that this rank exchanges in a step */
    int n_exchanges;
    double wire_bytes[N_MESH_AXES];      /* their algorithm bytes, by axis */
    int64_t parked_bytes;                /* copied to host memory and back, in a step (slot.park) */
    int64_t disk_read_bytes, disk_written_bytes;   /* of this rank's offload file, in a step that updates */
    int64_t technique_comm_bytes;        /* part of bytes[ROLE_COMM] that techniques asked for */
    int64_t technique_host_bytes;        /* host memory that receives sums of gradients (zero/); role comm */
    int64_t snapshot_bytes;              /* host memory of snapshots (elastic/); role save */
    int64_t technique_save_bytes;        /* of the copy of a checkpoint: the techniques' arrays (bill_saved) */
};

/** Add an exchange and its bytes. place: of the rank whose bill it is. @collective{none} */
void bill_exchange(struct bill *, const struct mesh_place *, struct exchange);
/** Add an array of `bytes` bytes to this rank's part of every checkpoint. @collective{none} */
void bill_saved(struct bill *, int64_t bytes);
void bill_fini(struct bill *);

/** Add flops and exchanges of all rows of a step, and the schedule's messages over AXIS_PP, to *bill; techniques add
 *  theirs.
 *  @collective{none} */
void bill_rows(const struct program *, const struct chunk *chunks, const struct schedule *, struct bill *);
void bill_sends(const struct program *, const struct schedule *, struct bill *);

/** Algorithm bytes that one such row sends. */
double bill_row_bytes(const struct call *, enum row_kind);

#endif
