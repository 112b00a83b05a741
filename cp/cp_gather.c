/* Attention over gathered keys and values: every rank gets all keys and values, and keeps its own queries.
 *
 *   forward    all-gather of K and V; the rank's queries meet one block after the other (cp_block.c)
 *   backward   all-gather again; each rank computes its part of all dk and dv, in reals; a reduce-scatter adds them
 *
 * Sent per layer, S = 2 B T/cp C elements: (cp - 1) S forward; backward (cp - 1) S and (cp - 1) S reals: one hop less
 * than the ring. But the rank computes nothing during the collectives, and scratch holds all T keys of the layer.
 *
 * Source: Grattafiori et al. 2024 (Llama 3), section 3.3.2. */
#include "cp/cp_block.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"

/* Block j is of rank j; the gather is in place. */
static enum status gather(const struct cp_blocks *x) {
    const struct call *c = x->call;
    char *own = cp_block(x, c->step->part);
    TRY(cp_pack_own(x, own));
    return comm_all_gather(c->group, own, x->blocks, x->count, op_dtype(c));
}

/* Blocks are met in the order of the ring, so that ring and gather compute the same bits forward. */
static enum status gather_forward(const struct call *c) {
    struct cp_blocks x;
    TRY(cp_blocks_begin(&x, c, c->step->parts, c->step->parts + 1, false));
    TRY(gather(&x));
    for (int s = 0; s < x.n; s++) TRY(cp_meet(&x, cp_peer(&x, -s), cp_block(&x, cp_peer(&x, -s))));
    return cp_finish(&x);
}

static enum status gather_backward_input(const struct call *c) {
    struct cp_blocks x;
    struct comm_request request = {0};
    TRY(cp_blocks_begin(&x, c, c->step->parts, c->step->parts + 1, true));
    TRY(gather(&x));
    TRY(cp_clear_sums(&x, x.sums, x.n));
    for (int s = 0; s < x.n; s++) {
        int other = cp_peer(&x, -s);
        TRY(cp_meet_backward(&x, other, cp_block(&x, other), cp_sums(&x, other)));
    }
    char *own = cp_sums(&x, x.n);
    TRY(comm_reduce_scatter_start(c->group, x.sums, own, x.count, dtype_accumulator(op_dtype(c)), &request));
    TRY(comm_wait(&request));
    return cp_finish_backward(&x, own);
}

static int64_t gather_work(const struct call *call, enum row_kind kind) {
    return cp_blocks_work(call, call->step->parts, call->step->parts + 1, kind == ROW_BACKWARD_INPUT);
}

static int gather_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    int64_t all = cp_blocks_of(c, 1, 1).count * c->step->parts;
    out[0].op = COMM_ALL_GATHER, out[0].count = all, out[0].dtype = op_dtype(c);
    out[1].op = COMM_REDUCE_SCATTER, out[1].count = all, out[1].dtype = dtype_accumulator(op_dtype(c));
    return kind == ROW_BACKWARD_INPUT ? 2 : 1;
}

const struct op op_cp_gather = {
    .name = "cp_gather", CP_ATTENTION, .work = gather_work, .exchanges = gather_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({gather_forward, gather_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({gather_forward, gather_backward_input, NULL}))}};
