/* Reading the memory of another rank of this host, so that a large message is copied once (messages.h: lent bodies).
 *
 * The kernel copies from one process to another (process_vm_readv) if the one may debug the other: both have the same
 * user, and nothing forbids it (Yama's ptrace_scope, a container without ptrace). Ranks find out by trying: each
 * publishes the address of a random word, and reads the others' words. So a process number that means another process
 * here, because of containers, is noticed, too. Each later read fetches the word with the bytes: when a rank dies,
 * another process may get its number before the next epoch opens. Private to lib/comm. */
#ifndef TRIVIUM_COMM_DIRECT_LENT_H
#define TRIVIUM_COMM_DIRECT_LENT_H

#include "lib/comm/direct/job.h"

/* Messages that are so large are lent; smaller ones are faster through a ring. */
enum { LENT_BYTES = 32 << 10 };

/** Publish the word in this process's line, and allow the other ranks to read: all have one parent.
 *  @collective{none} */
void own_lent_allow(struct own_line *mine);
/** Can this process read the memory of that one? @collective{none} */
bool own_lent_try(const struct own_line *of);
/** Read n bytes at `from` in its memory. @return false: it cannot be read, has ended, or another process has its number
 *  by now  @collective{none} */
bool own_lent_read(const struct own_line *of, void *to, uint64_t from, size_t n);

#endif
