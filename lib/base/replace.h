/* A file that a command makes: whole, or the old one stays as it was. What is written goes to PATH.new, which takes
 * the name at the end. Pipes, devices and what a shell redirects to are written as they are. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/** Begin to write a file. @return NULL: see errno; nothing has changed  @collective{none} */
FILE *replace_begin(const char *path);
/** End it: the new file takes the name if all of it was written and `keep`, and else is removed. file is closed.
 *  @return false: not all could be written, see errno; the old file is as it was  @collective{none} */
bool replace_end(const char *path, FILE *file, bool keep);
