/* `trivium compare`: strategies trained one after the other, and compared. */
#pragma once

/** `trivium compare [options] --strategies "a | b | ..."`, one rank of it; starts and leaves MPI. Returns the exit
 *  code.
 *  @collective{job} */
int compare_main(int argc, char **argv);
