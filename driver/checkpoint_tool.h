#ifndef TRIVIUM_DRIVER_CHECKPOINT_TOOL_H
#define TRIVIUM_DRIVER_CHECKPOINT_TOOL_H

/** `trivium checkpoint inspect DIR`: what a checkpoint holds, and whether it is whole; no device, no peers. Returns the exit code. */
int checkpoint_main(int argc, char **argv);

#endif
