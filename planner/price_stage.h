/* Seconds of one stage of the pipeline: its rows and their exchanges, each tape once, and the work after its schedule.
 * price.h defines what hides an exchange. */
#pragma once

#include "planner/price.h"

/* A stage is compiled and priced, or equals another one in all but its schedule. own: seconds without exchanges. */
struct chunk_price { double tape[N_TAPES], own[N_TAPES], phase[N_TAPES][N_PRICE_PHASES]; };
struct stage {
    const struct stage *like;             /* the stage that it equals; itself if it is compiled */
    struct run run;
    struct chunk_price *chunk;
    double send_s, cold_s;                /* a message to a neighbor; and the slowdown of the rows after it */
    double busy_s, forward_s, own_s, phase_s[N_PRICE_PHASES];
    double window_s, first_s;             /* one microbatch through all chunks: backward; forward */
    double end_s[N_PRICE_PHASES];         /* outside the schedule */
};

/** Price a compiled stage. `rank`: a cluster with the numbers of one rank. @errors E_MEMORY  @collective{none} */
enum status price_stage(const struct cluster *rank, struct stage *);
/** Bytes that offload moves in a step: over the link between rank and host, and in the host's memory. update_bytes: the
 *  part of host_bytes that the device moves without offload (price_update_bytes). @collective{none} */
struct price_offload { double link_bytes, host_bytes, update_bytes; };
struct price_offload price_offload(const struct run *);

/** Seconds per step of every row of a compiled run, added up by step of the program and kind. A row's exchange counts,
 *  unless the row is asynchronous.  @param row_s (n_steps, ROW_WAIT) added to  @collective{none} */
void price_each_row(const struct cluster *rank, const struct run *, double (*row_s)[ROW_WAIT]);

/** Seconds of the device's part of the update: its memory, and the products of its techniques.  @collective{none} */
double price_update_seconds(const struct cluster *rank, const struct run *);
/** Seconds after its schedule: the sum of end_s.  @collective{none} */
double stage_end_s(const struct stage *);
