/* `trivium oracle check`: a recording held against a reference. */
#pragma once

/** `trivium oracle check RUN REFERENCE [--out DIR]`. Returns the exit code: 0 all is right, 1 something is wrong, else
 *  as status_exit_code.  @collective{none} */
int oracle_check_main(int argc, char **argv);
