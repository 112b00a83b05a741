/* File names that survive a power cut. fsync of a file writes its bytes to the disk but not its name; fsync of the
 * folder writes the names of the files in it. */
#pragma once

#include "lib/base/status.h"

/** Flush the names of files that were made, renamed or removed in this folder. @errors E_IO  @collective{none} */
enum status durable_folder(const char *path);
/** Flush the name of this file or folder: durable_folder of its parent folder. @errors E_IO
 *  @collective{none} */
enum status durable_name(const char *path);
