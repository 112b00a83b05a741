/* Small files that configure a run: a cluster, a schedule's table, an order of pushes. A job whose ranks change opens
 * these files again. kept_file then returns the bytes of the first read, so that an edit during the job affects only
 * the next job. */
#pragma once

#include "lib/base/input.h"

/** From now on this process keeps the bytes of each file that it opens with INPUT_KEPT. @collective{none} */
void kept_begin(void);
/** Free all kept files; later opens keep nothing. */
void kept_end(void);

/** input_file with INPUT_KEPT: opens the bytes that this process read when it first opened the path.
 *  @errors input_file's; E_IO; E_FORMAT: the file has more than 64 MiB; E_MEMORY  @collective{none} */
enum status kept_file(const char *what, const char *path, enum input_kind, FILE **out);

/** Read and keep a file before its first open. A file that cannot be read is not kept; its later open reports why. */
void kept_early(const char *path);

/** Hash of the bytes of all kept files, in the order of their first opens; 0 if there are none.
 *  @collective{none} */
uint64_t kept_hash(void);
