/* The lighthouse: the coordinator of a job on several hosts. `launch` runs it in place of mpirun or of the agent of one
 * host, and communicates with it in the same way: by signals, text and an exit code. */
#pragma once

#include "launch/launch.h"

/** Run a request with --host or --hostfile: start an agent on each host, or wait for the agents; then coordinate them
 *  until the job ends. @return the exit code, as agent_main's */
int lighthouse_main(const struct launch_request *);
