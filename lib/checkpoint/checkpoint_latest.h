/* Where the step that `latest` names lies. Private to checkpoint*.c. Nothing here is collective. */
#pragma once

#include "lib/base/status.h"

/** If a job died while it gave that step, saved once more, its name: give it the name now. Before what is unfinished is
 *  removed, by the job that has the folder.
 *  @errors E_IO: it cannot be renamed, and stays where it is; or `latest` cannot be read; E_CONFIG */
enum status checkpoint_restore_name(const char *save);
