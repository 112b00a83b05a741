/* Output files that the user names. A plain open() of a FIFO without a reader waits forever; here it fails with
 * ENXIO. */
#pragma once

#include <stdio.h>

/** open(2) with mode 0666 and close-on-exec. Later writes to a full pipe wait for its reader.
 *  @return a descriptor, which the caller closes; -1: see errno and output_why  @collective{none} */
int output_open(const char *path, int flags);
/** fopen with mode "w" or "a". @return NULL: see errno and output_why  @collective{none} */
FILE *output_file(const char *path, const char *mode);
/** The text of an errno of output_open or output_file; borrowed until the next strerror. @collective{none} */
const char *output_why(int error);
