/* `trivium generate`: text from a checkpoint and a prompt. */
#pragma once

/** Run one rank of `trivium generate --checkpoint DIR --prompt TEXT [options]`; starts and leaves MPI. Returns the exit
 *  code.
 *  @collective{job} */
int generate_main(int argc, char **argv);
