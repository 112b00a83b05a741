/* This program, as it was when the job began. A build may put another one into its place while the job runs; ranks and
 * agents that are started later are of the same build as the first ones, all the same. */
#ifndef TRIVIUM_LAUNCH_PROGRAM_H
#define TRIVIUM_LAUNCH_PROGRAM_H

#include "lib/base/status.h"

/** Where this process's program was at the first call, which is to come early. Static storage. @errors E_IO */
enum status program_path(const char **out);
/** Is another file there now, or none? After program_path. */
bool program_is_replaced(void);
/** execvp of words[0]; if that is program_path, of what this process runs. It comes back only on failure (errno). */
void program_run(char *const *words);

#endif
