/* `trivium budget`: days, GPU hours, money and energy of a training run. */
#pragma once

/** `trivium budget --model M --cluster NAME --gpus N --tokens D [--mfu X] [--scale N:M [--weak]] [--json]`: print days,
 *  GPU hours, money and energy of a training run with failures; with --scale, for the best layout at each number of
 *  ranks. Returns the exit code.  @collective{none} */
int budget_main(int argc, char **argv);
