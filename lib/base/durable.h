/* Names that outlive a power cut: what was made or renamed in a folder is on the disk when the folder is (fsync).
 * A file's own fsync does not see to its name. */
#pragma once

#include "lib/base/status.h"

/** What was made, renamed or removed in this folder is on the disk. @errors E_IO  @collective{none} */
enum status durable_folder(const char *path);
/** The name of this file or folder is on the disk: durable_folder of the one that it lies in. @errors E_IO
 *  @collective{none} */
enum status durable_name(const char *path);
