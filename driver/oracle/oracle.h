/* `trivium oracle`: record the numbers of a training run, and find the first wrong number. */
#pragma once

/** `trivium oracle record|check|show`: write the numbers of a training run to files, and find the first that differs
 *  from a reference's by more than rounding (oracle/). Returns the exit code: 0, or 1 if check finds a difference.
 *  @collective{job, record; none, others} */
int oracle_main(int argc, char **argv);
