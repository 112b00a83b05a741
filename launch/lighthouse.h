/* The lighthouse of a job on several hosts: `launch` runs it where it would run mpirun, or the agent of one host, and
 * speaks to it in the same way: by signals, text and an exit code. */
#pragma once

#include "launch/launch.h"

/** A request with --host or --hostfile. Start an agent on each host, or wait for the agents; then as agent_main.
 *  @return the exit code */
int lighthouse_main(const struct launch_request *);
