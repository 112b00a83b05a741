/* ranks: 2  device: cpu  threads: 1
 *
 * Replicas with several microbatches: two kinds that send for each of them, and one that does not. */
#define LAYOUTS {.dp = 2, .zero = 3, .micro = 2}, {.dp = 2, .zero = 2, .micro = 4}, {.dp = 2, .micro = 4}
#include "lessons/21-hangs/hangs.h"

TESTS(HANG_TESTS)
