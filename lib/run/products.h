/* --gemm-algorithms FILE: each product of a step by the algorithm that was the fastest when it was timed.
 *
 * Before the first step rank 0 reads the file. Each rank times the products of its own rows that the file lacks, which
 * changes nothing but memory that holds nothing yet. Ranks may find different times for one product. The lowest rank's
 * choice is everyone's: ranks that compute the same product of the same numbers must get the same bits. Rank 0 adds
 * what is new to the file. From then on the table stays as it is.
 *
 * Promised: with the same file, library, GPU and layout a run has the same bits each time. The run that times has them,
 * too, because its first step begins after the file is written. A checkpoint names the table, and a run that goes on
 * from it with another one warns (checkpoint_data.c).
 *
 * Not timed: products in fp8, and those of experts. They have the library's first algorithm.
 *
 * What breaks: a file of another GPU, or of another version of the library, where the bytes that stand for an algorithm
 * mean another one, or none. It is refused. */
#pragma once

#include "lib/run/run.h"

/** Fill the table of choices (lib/ops/gemm/gemm_choices.h); without the option, empty it. The run is open and has not
 *  begun. @errors E_FORMAT: the file is damaged; E_CONFIG: it, or a rank's GPU, is not for this one; E_IO: it cannot be
 *  written; E_DEVICE  @collective{mesh} */
enum status products_choose(struct run *);
