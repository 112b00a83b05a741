/* `trivium checkpoint`: inspect, export and import checkpoints. */
#pragma once

/** `trivium checkpoint`: inspect a checkpoint and check that it is complete; export its weights to other projects'
 *  formats; import files of those formats. No device, no peers. Returns the exit code. */
int checkpoint_main(int argc, char **argv);
