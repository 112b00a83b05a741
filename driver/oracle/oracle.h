/* `trivium oracle`: the numbers of a training run in files, and the first that is wrong. */
#pragma once

/** `trivium oracle record|check|show`: numbers of a training run in files; and which of them is the first that differs
 *  from the reference's by more than rounding (oracle/). Returns the exit code: 0, 1 where check finds a difference.
 *  @collective{job, record; none, others} */
int oracle_main(int argc, char **argv);
