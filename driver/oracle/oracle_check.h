/* `trivium oracle check`: compare a recording with a reference. */
#pragma once

/** `trivium oracle check RUN REFERENCE [--out DIR]`. Returns the exit code: 0 no difference, 1 a difference, otherwise
 *  as status_exit_code.  @collective{none} */
int oracle_check_main(int argc, char **argv);
