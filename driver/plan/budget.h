/* `trivium budget`: days, GPU hours, money and energy of a training run. */
#pragma once

/** `trivium budget --model M --cluster NAME --gpus N --tokens D [--mfu X] [--scale N:M [--weak]] [--json]`: days,
 *  hours of GPUs, money and energy of a training run, with its failures; with --scale, the best layout at each number
 *  of ranks. Returns the exit code.  @collective{none} */
int budget_main(int argc, char **argv);
