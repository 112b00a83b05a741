/* The agent: the parent of a host's ranks in a job without MPI (--comm-transport direct). `launch` runs it where it
 * would run mpirun, and speaks to it in the same way: by signals, text and an exit code. */
#ifndef TRIVIUM_LAUNCH_AGENT_H
#define TRIVIUM_LAUNCH_AGENT_H

/** argv: launch's own options, and PROGRAM args... Starts the ranks of PROGRAM and the spares, and waits for all of
 *  them. USR1 is passed on; TERM, and a rank that ends before it has said that it has finished, end the others. But if
 *  a signal has killed it, and enough are left for --elastic, they go on in a new epoch.
 *  @return the exit code: 0; the first of a rank's that is not; 128 + the signal that killed one; 1: it was told to end
 *  itself */
int agent_main(int argc, char **argv);

#endif
