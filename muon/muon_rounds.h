/* The matrices that Muon updates, and the rounds in which ranks exchange them. See muon_rounds.c. */
#pragma once

#include "lib/ops/muon.h"
#include "lib/program/bill.h"

/* One exchange of a round, over the ranks of an axis. At first each rank has its part of `parts` things; afterwards it
 * has `here` whole things. A part is `outer` runs of `inner` elements, and run i of a thing is the ranks' runs i. */
struct muon_exchange {
    enum mesh_axis axis;
    int n_ranks;
    bool gathers;                        /* each rank gets all things; else each thing goes to one rank */
    int64_t parts, slots, here;          /* slots: places for things that come to one rank; the last may be empty */
    int64_t outer, inner;
};

/* Up to as many params of the same shape as there are ranks that have parts of each. */
struct muon_round {
    struct muon_shape shape;             /* of one matrix, whole */
    int64_t n_matrices;                  /* of a param on this rank: q, k and v; the experts of this rank */
    int n_params, param[64];
    struct muon_exchange shards, cut;    /* of a param's shards (zero); of its rows or columns (tp) */
};

struct muon_rounds { int n; struct muon_round *round; };

/** Is the param a matrix of a layer: does a step of a layer multiply by it? Pure. */
bool muon_is_matrix(const struct program *, int param);

/** List the rounds of this rank. Pure; muon_rounds_fini also after an error.
 *  @errors E_INTERNAL: a matrix is cut in a way that the exchange cannot undo; E_MEMORY  @collective{none} */
enum status muon_rounds_init(const struct program *, struct muon_rounds *out);
void muon_rounds_fini(struct muon_rounds *);

/** Elements of the buffers that a round's exchanges need; 2 such buffers. Pure. */
int64_t muon_round_room(const struct muon_round *);
/** Add the exchanges of a round, there and back. @collective{none} */
void muon_round_bill(const struct muon_round *, const struct mesh_place *, struct bill *);

/** There: replace the parts in `at`, [part][run] of `inner` elements, by whole things, [thing][run][rank]. Back: the
 *  things by their parts. `at` and `spare`: muon_round_room elements of the dtype, in device memory. In order on the
 *  compute stream.  @collective{group of x->axis} @errors E_COMM, E_TIMEOUT, E_DEVICE */
enum status muon_exchange_there(const struct device *, const struct mesh *, const struct muon_exchange *x, enum dtype,
                                char *at, char *spare);
enum status muon_exchange_back(const struct device *, const struct mesh *, const struct muon_exchange *x, enum dtype,
                               char *at, char *spare);
