/* Fibers: stacks of their own on one OS thread, and the switch between them.
 *
 * A fiber runs `fiber_main`, which never returns. A fiber that is given back keeps its place in fiber_main and
 * continues there when it is taken again. fiber_reset_all starts fibers afresh: no destructor of their frames runs. */
#pragma once

namespace simt {

struct fiber { void *stack_pointer; char *stack; };

/** What every fiber runs (schedule.cpp). Never returns. */
void fiber_main(void);

/** A free fiber; owned by this file. At most 1024 may be in use: one for each thread of a block. */
struct fiber *fiber_take(void);
void fiber_give_back(struct fiber *);
/** Free all fibers and start them afresh. Must not be called on a fiber. */
void fiber_reset_all(void);

/** Save the present place in *from and continue in *to. Returns when a fiber switches back to *from. */
void fiber_switch(struct fiber *from, struct fiber *to);

/** Does the address lie in a fiber's stack? Locals of kernels do. */
bool fiber_owns(const void *address);

}
