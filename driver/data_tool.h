/* `trivium data`: make and inspect files of tokens and of clicks. */
#pragma once

/** `trivium data tokenize INPUT... --to OUT`: convert text to a file of tokens. `trivium data inspect FILE`: print a
 *  file's contents. No device, no peers. Returns the exit code. */
int data_main(int argc, char **argv);
