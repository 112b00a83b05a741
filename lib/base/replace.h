/* Replace a file atomically: a command writes PATH.new and renames it to PATH at the end. If the command fails, the old
 * file stays unchanged. Pipes, devices and a shell's redirections are written directly. */
#pragma once

#include "lib/base/status.h"
#include <stdbool.h>
#include <stdio.h>

/** Open PATH.new (or a pipe or device) for writing. @return NULL: see errno; PATH is unchanged  @collective{none} */
FILE *replace_begin(const char *path);
/** Close `file`. If every write succeeded and `keep` is set, rename PATH.new to PATH; otherwise remove PATH.new.
 *  @return false: a write failed, see errno; the old file is unchanged  @collective{none} */
bool replace_end(const char *path, FILE *file, bool keep);

/* File names that survive a power cut. fsync of a file writes its bytes to the disk but not its name; fsync of the
 * folder writes the names of the files in it. */

/** Flush the names of files that were made, renamed or removed in this folder. @errors E_IO  @collective{none} */
enum status durable_folder(const char *path);
/** Flush the name of this file or folder: durable_folder of its parent folder. @errors E_IO
 *  @collective{none} */
enum status durable_name(const char *path);
