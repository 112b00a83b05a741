/* Fibers: stacks of their own on one OS thread, and the switch between them.
 *
 * A fiber runs `fiber_main`, which never returns. A fiber that is given back keeps its place in fiber_main and goes on
 * there when it is taken again; fiber_reset starts it afresh (its frames are dropped, nothing in them is destroyed). */
#pragma once

namespace simt {

struct fiber { void *stack_pointer; char *stack; };

/** What every fiber runs (schedule.cpp). Never returns. */
void fiber_main(void);

/** A free fiber; owned by this file. At most 1024 may be in use: one for each thread of a block. */
struct fiber *fiber_take(void);
void fiber_give_back(struct fiber *);
/** All fibers are free again, and start afresh. Not to be called on one of them. */
void fiber_reset_all(void);

/** Save the present place in *from and go on in *to. Returns when somebody switches back to *from. */
void fiber_switch(struct fiber *from, struct fiber *to);

/** Does the address lie in a fiber's stack? Locals of kernels do. */
bool fiber_owns(const void *address);

}
