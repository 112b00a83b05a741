/* The bill: a step's costs on one rank, counted from the same rows that run. */
#pragma once

#include "lib/comm/exchange.h"
#include "lib/program/memory.h"

struct bill {
    int64_t bytes[N_ROLES];              /* peak memory */
    double flops[N_ROW_KINDS];           /* by row kind (forward, replay, backward input, ...) */
    struct exchange *exchanges;          /* all collectives and messages of this rank in a step */
    int n_exchanges;
    struct update_cost { struct cost cost; enum dtype dtype; double times; } *updates; /* of techniques, besides rows */
    int n_updates;                       /* a technique grows the table (table_grow) */
    double wire_bytes[N_MESH_AXES];      /* algorithm bytes of the exchanges, by axis */
    int64_t parked_bytes;                /* bytes that a step copies to host memory and back (slot.park) */
    int64_t disk_read_bytes, disk_written_bytes;   /* of the rank's offload file, in a step with an update */
    int64_t technique_comm_bytes;        /* the part of bytes[ROLE_COMM] that techniques allocate */
    int64_t technique_host_bytes;        /* host memory into which gradients are summed (zero/); role comm */
    int64_t technique_work_bytes[N_TIERS]; /* the parts of the work arenas that techniques allocate */
    int64_t snapshot_bytes;              /* host memory of snapshots (elastic/); role save */
    int64_t technique_save_bytes;        /* the techniques' arrays in the copy of a checkpoint (bill_saved) */
    int64_t technique_text_bytes;        /* the most that those techniques write in a manifest that write much */
};

/** Add an exchange and its bytes to the bill of the rank at `place`. @collective{none} */
void bill_exchange(struct bill *, const struct mesh_place *, struct exchange);
/** Add an array of `bytes` bytes to this rank's part of every checkpoint. @collective{none} */
void bill_saved(struct bill *, int64_t bytes);
void bill_fini(struct bill *);

/** Add to *bill the flops and exchanges of all rows of a step, the schedule's messages over AXIS_PP, and the
 *  techniques' own costs.
 *  @collective{none} */
void bill_rows(const struct program *, const struct chunk *chunks, const struct schedule *, struct bill *);
void bill_sends(const struct program *, const struct schedule *, struct bill *);

/** Algorithm bytes that a row of this kind sends. */
double bill_row_bytes(const struct call *, enum row_kind);
