/* Replace a file atomically: a command writes PATH.new and renames it to PATH at the end. If the command fails, the old
 * file stays unchanged. Pipes, devices and a shell's redirections are written directly. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/** Open PATH.new (or a pipe or device) for writing. @return NULL: see errno; PATH is unchanged  @collective{none} */
FILE *replace_begin(const char *path);
/** Close `file`. If every write succeeded and `keep` is set, rename PATH.new to PATH; otherwise remove PATH.new.
 *  @return false: a write failed, see errno; the old file is unchanged  @collective{none} */
bool replace_end(const char *path, FILE *file, bool keep);
