/* `trivium compare`: train strategies one after the other, and compare them. */
#pragma once

/** Run one rank of `trivium compare [options] --strategies "a | b | ..."`; starts and leaves MPI. Returns the exit
 *  code.
 *  @collective{job} */
int compare_main(int argc, char **argv);
