/* A run's steps, phases, actions and rows as NVTX ranges (lib/base/nvtx.h), with the names of a trace. */
#pragma once

#include "lib/run/run.h"

struct trace_nvtx;

/** From now on each step of the opened run (borrowed) is a range, with nested ranges for its phases, actions and rows.
 *  A range shows the host's time, in which the host queues a GPU's work. Collectives do not nest, and have no ranges.
 *  Cannot be used together with a trace, because both need the run's recorder.  @errors E_MEMORY  @collective{none} */
enum status trace_nvtx_begin(struct run *, struct trace_nvtx **out);
/** Call before run_destroy. Does nothing if the pointer is NULL. */
void trace_nvtx_end(struct trace_nvtx **);
