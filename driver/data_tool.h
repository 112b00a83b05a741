/* `trivium data`: files of tokens and of clicks, made and inspected. */
#pragma once

/** `trivium data tokenize INPUT... --to OUT`: text to a file of tokens. `trivium data inspect FILE`: a file's contents.
 *  No device, no peers. Returns the exit code. */
int data_main(int argc, char **argv);
