/* Files that the user names to be written. A FIFO that no process reads would be waited for without end, and without a
 * word; here it is an error. */
#pragma once

#include <stdio.h>

/** As open(2) with mode 0666, and closed on exec. What is written later does wait for the reader of a pipe.
 *  @return a descriptor, to be closed; -1: see errno and output_why  @collective{none} */
int output_open(const char *path, int flags);
/** As fopen, with mode "w" or "a". @return NULL: see errno and output_why  @collective{none} */
FILE *output_file(const char *path, const char *mode);
/** Why one of these failed, in words; borrowed until the next strerror. @collective{none} */
const char *output_why(int error);
