/* `trivium plan`: the step time of a layout on a described cluster. */
#ifndef TRIVIUM_DRIVER_PLAN_H
#define TRIVIUM_DRIVER_PLAN_H

/** `trivium plan --cluster NAME [--gpus N] [options of train] [--json]`: what a step of this layout would take on a
 *  described cluster, and whether it fits; with --gpus, the best of N ranks. Returns the exit code.
 *  @collective{none} */
int plan_main(int argc, char **argv);

#endif
