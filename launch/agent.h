/* The agent: the parent of a host's ranks in a job without MPI (--comm-transport direct). `launch` runs it in place of
 * mpirun, and communicates with it in the same way: by signals, text and an exit code. */
#pragma once

#include "launch/launch.h"

/** argv: launch's own options, and PROGRAM args... Starts the ranks of PROGRAM and the spares, and waits for all of
 *  them. USR1 is forwarded to all ranks. TERM ends all ranks. A rank that ends before it has marked itself as finished
 *  ends the others; but if a signal killed it and enough are left for --elastic, these continue in a new epoch.
 *  @return the exit code: 0; a rank's first code that is not 0; 128 + a rank's signal; 1: a signal ended the agent */
int agent_main(int argc, char **argv);

/* The agent of one of several hosts (`trivium agent --meet HOST:PORT`): it starts this host's ranks at the lighthouse's
 * request, and sends changes of this host's memory to the other hosts (host_link.h). It decides nothing. */

/** @return the exit code that the lighthouse sends; 1: the connection to the lighthouse failed; 2: a bad request */
int host_main(int argc, char **argv);

/* The lighthouse: the coordinator of a job on several hosts. `launch` runs it in place of mpirun or of the agent of one
 * host, and communicates with it in the same way: by signals, text and an exit code. */

/** Run a request with --host or --hostfile: start an agent on each host, or wait for the agents; then coordinate them
 *  until the job ends. @return the exit code, as agent_main's */
int lighthouse_main(const struct launch_request *);

/* ---- Commands that read the flight records of a job's ranks (lib/comm/flight/), and disturb no rank. ---- */

/** `trivium postmortem [JOB|DIR] [--json]`: compares the records of all ranks (lib/comm/flight/postmortem.h). JOB: a
 *  job on this host, running or dead (default: the newest). DIR: a folder in which `launch` keeps a failed job's
 *  records. @return the exit code */
int postmortem_main(int argc, char **argv);
/** `trivium watch [JOB] [--once] [--json] [--metrics FILE]`: prints a running job as a table, from its records and its
 *  metrics, once a second until the job ends. @return the exit code */
int watch_main(int argc, char **argv);
