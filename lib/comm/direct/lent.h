/* Reading the memory of another rank of this host, so that a large message is copied once (messages.h: lent bodies).
 *
 * The kernel copies from one process to another (process_vm_readv) if the reader may debug the other: both have the
 * same user, and nothing forbids it (Yama's ptrace_scope, a container without ptrace). Ranks find out by a test: each
 * publishes its process number and the address of a random word, and reads the others' words. In another container a
 * process number may name another process, and then the word read is not the random one. Each later read fetches the
 * word with the bytes, because a new process may get the number of a dead rank before the next epoch opens. Private to
 * lib/comm. */
#pragma once

#include "lib/comm/direct/job.h"

/* Messages of at least this size are lent; smaller ones are faster through a ring. */
enum { LENT_BYTES = 32 << 10 };

/** Publish the random word in this process's line, and allow the other ranks, which have the same parent, to read its
 *  memory. @collective{none} */
void own_lent_allow(struct own_line *mine);
/** Can this process read the memory of that rank? @collective{none} */
bool own_lent_try(const struct own_line *of);
/** Read n bytes at address `from` of that rank's memory. @return false: the memory cannot be read, the rank has ended,
 *  or another process has its number by now @collective{none} */
bool own_lent_read(const struct own_line *of, void *to, uint64_t from, size_t n);
