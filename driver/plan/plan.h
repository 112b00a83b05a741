/* `trivium plan`: the step time of a layout on a described cluster. */
#pragma once

/** `trivium plan --cluster NAME [--gpus N] [options of train] [--json]`: the time and memory of a step of this layout
 *  on a described cluster; with --gpus, the best layout of N ranks. Returns the exit code.
 *  @collective{none} */
int plan_main(int argc, char **argv);
