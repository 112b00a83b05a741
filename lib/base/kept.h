/* Small files that say what a run does: a cluster, a table of a schedule, an order of pushes. A job that goes on when
 * its ranks change asks for them again, and gets what it has read first: what is edited or removed meanwhile is the
 * next job's. */
#pragma once

#include "lib/base/input.h"

/** From now on this process keeps what it opens with INPUT_KEPT. @collective{none} */
void kept_begin(void);
/** Forget it all, and keep nothing from now on. */
void kept_end(void);

/** input_file of INPUT_KEPT: its bytes as they were when this process has opened that path first.
 *  @errors input_file's; E_IO: it cannot be read; E_FORMAT: it has more than 64 MiB; E_MEMORY  @collective{none} */
enum status kept_file(const char *what, const char *path, enum input_kind, FILE **out);

/** Read a file now that is opened later. One that cannot be read is not kept: its reader says why. */
void kept_early(const char *path);

/** Hash of the bytes of all kept files, in the order in which they were opened first; 0: none.
 *  @collective{none} */
uint64_t kept_hash(void);
