/* The instruction set that tensors are computed with. A program of `make ARCH=any` has the hot sources (Makefile:
 * HOT_C) compiled for several levels of x86-64. Before main the highest level that this processor has is chosen, or a
 * lower one that the environment names: TRIVIUM_CPU=x86-64-v3. A level's numbers are, to the bit, those of
 * `make ARCH=LEVEL`. An unknown or too high level ends the program, with one line. */
#pragma once

/** The level that was chosen, as "x86-64-v3". NULL in a program that is built for one kind of processor. Static. */
const char *level_chosen(void);
