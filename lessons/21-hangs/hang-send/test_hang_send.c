/* ranks: 2 4  device: cpu  threads: 1
 *
 * Pipelines with several microbatches. */
#define LAYOUTS {.pp = 2, .micro = 4}, {.pp = 4, .micro = 2}, {.pp = 2, .dp = 2, .micro = 4}
#include "lessons/21-hangs/hangs.h"

TESTS(HANG_TESTS)
