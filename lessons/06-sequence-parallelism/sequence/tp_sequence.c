/* Exercise: the ends of a region when the sequence is cut between regions (lesson 06).
 *
 *   sp_enter   forward:  every rank has T/tp tokens of every sequence, and gets all T        (B,T/tp,C) -> (B,T,C)
 *   sp_exit    forward:  every rank has all T tokens, each a part of a sum, and gets the whole sum for its own tokens
 *                                                                                            (B,T,C) -> (B,T/tp,C)
 *   backward of each: work it out. Which of the collectives of lib/comm/comm.h are they?
 *
 * Layout. A collective over n ranks has n equal contiguous pieces; piece r is rank r's. A rank's tokens are a piece of
 * every sequence of the batch, so in (B,T,C) they are not contiguous unless B is 1. The tensor's order is
 * (B,tp,T/tp,C), the collective's order is (tp,B,T/tp,C). pieces_transpose (lib/ops/pieces.h) converts between them,
 * into and out of scratch (c->work): it transposes a matrix whose elements are pieces of T/tp tokens. With B = 1 the
 * orders are equal, and no scratch is needed.
 *
 * There are two types:
 *
 *   struct call       (lib/ops/op.h) one row's operands: in[0] and out[0] forward, dout[0] and din[0] backward, each
 *                     with data and type (type->dtype, type->shape.axis[0].n is B or of axis[1] the tokens, type_n and
 *                     type_bytes of it); work, group, device, request; step->parts is tp
 *   struct exchange   (lib/comm/exchange.h) what a row sends, for the bill: op, count (of the whole), dtype
 *
 * tp/tp_ops.c makes the ops of these functions. Begin with sp_enter_forward and B = 1: it is one line. */
#include "tp/tp_sequence.h"

#include "lib/comm/comm_request.h"
#include "lib/comm/exchange.h"
#include "lib/ops/pieces.h"

/* ---- kernels: TODO. The next step needs forward of both and backward of sp_exit at once, so wait for them ---- */
enum status sp_enter_forward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "sp_enter's forward is still to be written");
}
enum status sp_exit_backward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "sp_exit's backward is still to be written");
}

enum status sp_exit_forward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "sp_exit's forward is still to be written");
}
/* Asynchronous: start the exchange with c->request; a later row waits. Its operands and scratch stay until then. */
enum status sp_enter_backward(const struct call *c) {
    (void)c;
    return FAIL(E_TODO, "sp_enter's backward is still to be written");
}

/* ---- work and exchanges: TODO. enters: a row of sp_enter, else of sp_exit; of forward, or of backward ---- */
/* Bytes of scratch. */
int64_t sp_work(const struct call *c, bool enters, bool forward) {
    (void)c, (void)enters, (void)forward;
    return 0;
}
/* Set a row's exchanges, and return their number. */
int sp_exchanges(const struct call *c, bool enters, bool forward, struct exchange out[MAX_EXCHANGES]) {
    (void)c, (void)enters, (void)forward, (void)out;
    return 0;
}
