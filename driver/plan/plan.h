/* `trivium plan`: the step time of a layout on a described cluster. */
#pragma once

/** `trivium plan --cluster NAME [--gpus N] [options of train] [--json]`: print the time and memory of a step of the
 *  given layout on a described cluster; with --gpus, of the best layout of N ranks. Returns the exit code.
 *  @collective{none} */
int plan_main(int argc, char **argv);
