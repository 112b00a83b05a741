/* The row of ring attention: its scratch, its messages and its kernels. The hops are in cp_ring.c. */
#include "cp/cp_block.h"

#include "lib/comm/comm.h"
#include "lib/comm/exchange.h"
#include "lib/ops/kernels.h"

static enum status begin(struct cp_blocks *x, const struct call *c, bool backward) {
    TRY(cp_blocks_begin(x, c, CP_RING_BLOCKS, CP_RING_BLOCKS, backward));
    x->pair.between = comm_progress;
    return OK;
}

static enum status ring_forward(const struct call *c) {
    struct cp_blocks x;
    TRY(begin(&x, c, false));
    return cp_ring_forward(&x);
}

static enum status ring_backward_input(const struct call *c) {
    struct cp_blocks x;
    TRY(begin(&x, c, true));
    return cp_ring_backward(&x);
}

static int64_t ring_work(const struct call *call, enum row_kind kind) {
    return cp_blocks_work(call, CP_RING_BLOCKS, CP_RING_BLOCKS, kind == ROW_BACKWARD_INPUT);
}

/* The blocks, and in backward their sums too. */
static int ring_exchanges(const struct call *c, enum row_kind kind, struct exchange out[MAX_EXCHANGES]) {
    struct cp_blocks x = cp_blocks_of(c, CP_RING_BLOCKS, CP_RING_BLOCKS);
    int hops = x.ranks - 1;
    out[0].op = out[1].op = COMM_SEND;
    out[0].count = hops * x.count, out[0].dtype = x.dtype, out[0].pieces = hops;
    if (kind != ROW_BACKWARD_INPUT) return 1;
    cp_ring_sums_sent(&x, &out[1]);
    return 2;
}

const struct op op_cp_ring = {
    .name = "cp_ring", CP_ATTENTION, .work = ring_work, .exchanges = ring_exchanges,
    .kernels = {[DEVICE_CPU] = EVERY_DTYPE({ring_forward, ring_backward_input, NULL}),
                WITH_CUDA([DEVICE_CUDA] = EVERY_DTYPE({ring_forward, ring_backward_input, NULL}))}};
