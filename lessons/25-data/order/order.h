/* The order of samples, and documents in rows: the contract of this exercise. The theory is in lesson 25. */
#pragma once

#include "lib/base/status.h"
#include <stdint.h>

/* A run's samples. Sample number s of the run, from 0, has place s mod n_samples of epoch s / n_samples. Its index is
 * rng_permute(seed, rng_stream("data.shuffle"), epoch, n_samples, place), lib/base/rng.h. Step 0 begins with sample
 * number `first`; each step takes global_batch. */
struct order { uint64_t seed; int64_t n_samples, global_batch, first; };

/* A rank among n_ranks replicas, each with microbatches of micro_batch samples. global_batch is a multiple of n_ranks
 * micro_batch. */
struct replica { int64_t rank, n_ranks, micro_batch; };

/** *index = the index, in the data, of number i of a step's global batch; 0 <= i < global_batch.  @collective{none} */
enum status order_sample(const struct order *, int64_t step, int64_t i, int64_t *index);

/** *index = the index of sample b of the replica's microbatch m in this step. The first microbatches of all replicas,
 *  in the order of ranks, are the batch's first samples; then come the second microbatches.  @collective{none} */
enum status order_of_replica(const struct order *, int64_t step, struct replica, int64_t m, int64_t b, int64_t *index);

/** *after = the order of a run that goes on after `steps` steps, with another global batch. No sample of the run is
 *  taken twice, and none is left out.  @collective{none} */
enum status order_resized(const struct order *, int64_t steps, int64_t global_batch, struct order *after);

/* Where a document lies: its row, and its first position there. */
struct packed { int64_t row, at; };

/** Pack n documents of length[i] tokens into rows of T, in their order. Each goes into the row with the least room of
 *  those that have enough, behind what is there; of several such rows, into the first; if no row has enough, into a new
 *  one. *n_rows = the number of rows. place has room for n.
 *  @errors E_DATA: a length is not in 1..T  @collective{none} */
enum status order_pack(const int64_t *length, int64_t n, int64_t T, struct packed *place, int64_t *n_rows);

/* A row of T positions. segment: 1, 2, ... in the order of documents, 0 behind the last; position: from 0 in each
 * document, 0 behind the last; target: the next token of the same document, -1 where there is none. token: 0 behind
 * the last. */
struct row { int32_t *token, *target, *segment, *position; };

/** Fill a row with n documents, one directly behind the other. Their lengths sum to at most T.  @collective{none} */
enum status order_row(const int32_t *const *document, const int64_t *length, int64_t n, int64_t T, struct row);

/** *sees = 1 if the query at position q may see the key at position k: the same document, and k not behind q; else 0.
 *  Padding sees nothing, and is seen by nothing.  @collective{none} */
enum status order_sees(const int32_t *segment, int64_t q, int64_t k, int *sees);
