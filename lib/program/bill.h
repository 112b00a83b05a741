/* The bill: what a step of one rank costs, read off the same rows that run. */
#ifndef TRIVIUM_PROGRAM_BILL_H
#define TRIVIUM_PROGRAM_BILL_H

#include "lib/comm/mesh.h"
#include "lib/program/memory.h"

#ifdef __cplusplus
extern "C" {
#endif

struct bill {
    int64_t bytes[N_ROLES];              /* peak memory */
    double flops[N_ROW_KINDS];           /* by row kind: forward, replay, backward input, backward weight */
    double wire_bytes[N_MESH_AXES];      /* algorithm bytes this rank sends, by axis */
    int64_t technique_comm_bytes;        /* part of bytes[ROLE_COMM] that techniques asked for */
};

/** Flops and wire bytes of all rows of a step. Adds to *bill; techniques add theirs. @collective{none} */
void bill_rows(const struct program *, const struct chunk *chunks, const struct schedule *, struct bill *);
/** Bytes that the schedule's sends move over AXIS_PP. */
void bill_sends(const struct chunk *chunks, const struct schedule *, struct bill *);

#ifdef __cplusplus
}
#endif
#endif
