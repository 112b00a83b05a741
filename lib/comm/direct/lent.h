/* Reading the memory of another rank of this host, so that a large message is copied once (messages.h: what is lent).
 *
 * The kernel copies from one process to another (process_vm_readv) where it would let the one debug the other: both are
 * of one user, and nothing forbids it (Yama's ptrace_scope, a container without ptrace). Whether it does, is seen by
 * trying: each rank shows where a random word lies in its memory, and reads that of the others. So a number that means
 * another process here, in a container of its own, is seen too. Each later read fetches the word with the bytes: a rank
 * that died may have given its number to another process, before an epoch says that it is no member. Private to
 * lib/comm. */
#ifndef TRIVIUM_COMM_DIRECT_LENT_H
#define TRIVIUM_COMM_DIRECT_LENT_H

#include "lib/comm/direct/job.h"

/* Messages that are so large are lent; smaller ones are faster through a ring. */
enum { LENT_BYTES = 32 << 10 };

/** Publish in this process's line what others may read, and allow it to the other ranks: all have one parent.
 *  @collective{none} */
void own_lent_allow(struct own_line *mine);
/** Can this process read the memory of that one? @collective{none} */
bool own_lent_try(const struct own_line *of);
/** n bytes at `from` in its memory. @return false: it cannot be read, has ended, or its
 *  number is another process's by now  @collective{none} */
bool own_lent_read(const struct own_line *of, void *to, uint64_t from, size_t n);

#endif
