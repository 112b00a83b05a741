/* This program, as it was when the job began. A build may replace the file while the job runs; ranks and agents that
 * are started later still run the same build as the first ones. */
#pragma once

#include "lib/base/status.h"

/** The path that this process's program had at the first call, so call it early. Static storage. @errors E_IO */
enum status program_path(const char **out);
/** Is there another file at this path now, or none? Call after program_path. */
bool program_is_replaced(void);
/** execvp of words[0]; if words[0] is program_path, run this process's own file. Returns only on failure (errno). */
void program_run(char *const *words);
