/* `trivium generate`: text from a checkpoint and a prompt. */
#pragma once

/** `trivium generate --checkpoint DIR --prompt TEXT [options]`, one rank of it; starts and leaves MPI. Returns the exit
 *  code.
 *  @collective{job} */
int generate_main(int argc, char **argv);
