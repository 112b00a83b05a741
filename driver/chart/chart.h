/* The file that --svg names. */
#pragma once

#include "lib/base/status.h"
#include <stdio.h>

/** Open the file. @param out closed with chart_file_close; NULL on error  @errors E_IO, with the path and the system's
 *  reason  @collective{none} */
enum status chart_file_open(const char *path, FILE **out);
/** Close the file and put it in place. @errors E_IO if a write failed  @collective{none} */
enum status chart_file_close(const char *path, FILE *);
