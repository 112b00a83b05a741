/* A run's steps, phases, actions and rows as NVTX ranges (lib/base/nvtx.h), with the names that a trace has. */
#pragma once

#include "lib/run/run.h"

struct trace_nvtx;

/** From here on each step of the opened run (borrowed) is a range, and what it does lies in it. They are the host's
 *  time, in which a GPU's work is queued; collectives, which do not nest, have none. Not together with a trace, which
 *  has the run's recorder.  @errors E_MEMORY  @collective{none} */
enum status trace_nvtx_begin(struct run *, struct trace_nvtx **out);
/** At the latest before run_destroy. NULL: none. */
void trace_nvtx_end(struct trace_nvtx **);
