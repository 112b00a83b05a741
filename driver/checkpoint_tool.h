/* `trivium checkpoint`: inspect, export and import checkpoints. */
#pragma once

/** `trivium checkpoint`: inspect what a checkpoint holds and whether it is whole, export its weights to other projects'
 *  formats, import theirs; no device, no peers. Returns the exit code. */
int checkpoint_main(int argc, char **argv);
