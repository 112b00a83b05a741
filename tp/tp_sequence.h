/* sp_enter and sp_exit: the ends of a tensor parallel region when activations between regions are sharded along the
 * sequence. See tp_sequence.c. */
#pragma once

#include "lib/ops/op.h"

/** (B,T/tp,C) -> (B,T,C): all-gather; backward: reduce-scatter, started here; a ROW_WAIT waits. */
extern const struct op op_sp_enter;
/** (B,T,C), a partial sum -> (B,T/tp,C): reduce-scatter; backward: all-gather. */
extern const struct op op_sp_exit;
