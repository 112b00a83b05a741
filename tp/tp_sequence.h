/* sp_enter and sp_exit: the ends of a tensor parallel region when what lies between regions is cut along the sequence.
 * See tp_sequence.c. */
#ifndef TRIVIUM_TP_TP_SEQUENCE_H
#define TRIVIUM_TP_TP_SEQUENCE_H

#include "lib/ops/op.h"

/** (B,T/tp,C) -> (B,T,C): all-gather; backward: reduce-scatter, started here and awaited by a ROW_WAIT. */
extern const struct op op_sp_enter;
/** (B,T,C), a part of a sum -> (B,T/tp,C): reduce-scatter; backward: all-gather. */
extern const struct op op_sp_exit;

#endif
