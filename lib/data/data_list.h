/* Which files --data means. In this order:
 *
 *   a.txt            the file of that name, where there is one
 *   a.bin,b.bin      several, separated by commas; each a name or a pattern
 *   part-*.bin       a pattern as a shell's: * ? [...]
 *
 * Files come in the order of their names, byte by byte, whatever order they were given in: every rank and every machine
 * sees the same stream. */
#pragma once

#include "lib/base/status.h"

struct data_list { int n; char **path; };

/** The files that `names` means; those that are plain names need not exist. The caller finishes *out in any case.
 *  @errors E_DATA: a pattern that no file fits, a file named twice; E_MEMORY  @collective{none} */
enum status data_list_init(struct data_list *out, const char *names);
void data_list_fini(struct data_list *);
