/* --gemm-algorithms FILE: compute each matrix product of a step with the algorithm that was the fastest when timed.
 *
 * Before the first step rank 0 reads the file. Each rank times the products of its own rows that the file lacks; this
 * only writes to memory that is not in use yet. Ranks may find different algorithms for one product. All ranks take the
 * lowest rank's choice, because ranks that compute the same product must get the same bits. Rank 0 adds the new choices
 * to the file. After that the table does not change.
 *
 * With the same file, library, GPU and layout, every run has the same bits. So has the run that times, because its
 * first step begins after the file is written. A checkpoint records the table's hash, and a run that resumes with
 * another table warns (checkpoint_data.c).
 *
 * Products in fp8 and of experts are not timed. They use the library's first algorithm.
 *
 * What breaks: with another GPU, or another version of the library, the bytes in the file stand for another algorithm
 * or for none. Such a file is refused. */
#pragma once

#include "lib/run/run.h"

/** Fill the table of choices (lib/ops/gemm/gemm_choices.h); without the option, empty it. The run must be open, and no
 *  step started. @errors E_FORMAT: the file is damaged; E_CONFIG: the file is for another GPU or library, or the ranks'
 *  GPUs differ; E_IO: the file cannot be written; E_DEVICE  @collective{mesh} */
enum status products_choose(struct run *);
