/* Runs the build with which the job began. Another build may replace the program's file while the job runs; ranks and
 * agents that start later still run the same build as the first ones. */
#pragma once

#include "lib/base/status.h"

/** The path of this process's program at the time of the first call, so call it early. Static storage. @errors E_IO */
enum status program_path(const char **out);
/** Has program_path's file been replaced or removed? Call after program_path. */
bool program_is_replaced(void);
/** Run words[0] by execvp; if it is program_path, run this process's own build. Returns only on failure (errno). */
void program_run(char *const *words);
