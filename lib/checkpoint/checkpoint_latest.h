/* The folder of the step that `latest` names. Private to checkpoint*.c. No function here is collective. */
#pragma once

#include "lib/base/status.h"

/** If a job died while it renamed a step that was saved again, give the step its name. Called by the job that has the
 *  folder, before it removes unfinished steps.
 *  @errors E_IO: it cannot be renamed, and stays where it is; or `latest` cannot be read; E_CONFIG */
enum status checkpoint_restore_name(const char *save);
