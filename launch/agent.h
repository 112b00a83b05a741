/* The agent: the parent of a host's ranks in a job without MPI (--comm-transport direct). `launch` runs it in place of
 * mpirun, and communicates with it in the same way: by signals, text and an exit code. */
#pragma once

/** argv: launch's own options, and PROGRAM args... Starts the ranks of PROGRAM and the spares, and waits for all of
 *  them. USR1 is forwarded to all ranks. TERM ends all ranks. A rank that ends before it has marked itself as finished
 *  ends the others; but if a signal killed it and enough are left for --elastic, these continue in a new epoch.
 *  @return the exit code: 0; a rank's first code that is not 0; 128 + a rank's signal; 1: a signal ended the agent */
int agent_main(int argc, char **argv);
