/* `trivium oracle show`: the tensors of a recording, or one of them. */
#pragma once

/** `trivium oracle show DIR [STEP [NAME]]`: the tensors of a recording, or one of them. Returns the exit code.
 *  @collective{none} */
int oracle_show_main(int argc, char **argv);
