/* ranks: 4  device: cpu  threads: 1
 *
 * Layouts with a tied embedding on two stages, with layernorms whose gradients are parts, and with both. */
#define LAYOUTS {.tp = 2, .pp = 2, .sp = 1, .micro = 4}, {.pp = 4, .micro = 2}, {.tp = 2, .dp = 2, .sp = 1, .micro = 8}
#include "lessons/21-hangs/hangs.h"

TESTS(HANG_TESTS)
