/* The agent: the parent of a host's ranks in a job without MPI (--comm-transport direct). `launch` runs it where it
 * would run mpirun, and speaks to it in the same way: by signals, text and an exit code. */
#pragma once

/** argv: launch's own options, and PROGRAM args... Starts the ranks of PROGRAM and the spares, and waits for all of
 *  them. USR1 is passed on. TERM ends all ranks, and so does a rank that ends before it has said that it has finished.
 *  If a signal killed that rank, and enough are left for --elastic, the others go on in a new epoch.
 *  @return the exit code: 0; the first code of a rank that is not 0; 128 + the signal that killed a rank; 1: a signal
 *  ended the agent */
int agent_main(int argc, char **argv);
