/* The files that --data names. The first rule that fits wins:
 *
 *   a.txt            the file of that name, if it exists
 *   a.bin,b.bin      several, separated by commas; each is a name or a pattern
 *   part-*.bin       a shell pattern: * ? [...]
 *
 * The files are sorted by the bytes of their names, so that every rank and every machine sees the same stream. */
#pragma once

#include "lib/base/status.h"

struct data_list { int n; char **path; };

/** List the files that `names` stands for; a plain name need not exist. Call data_list_fini even after an error.
 *  @errors E_DATA: a pattern without a matching file, a file named twice; E_MEMORY  @collective{none} */
enum status data_list_init(struct data_list *out, const char *names);
void data_list_fini(struct data_list *);
