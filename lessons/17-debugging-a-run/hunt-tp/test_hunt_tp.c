/* ranks: 2 4  device: cpu
 *
 * Tensor parallelism, with and without sequence parallelism. */
#define LAYOUTS \
    {.tp = 2}, {.tp = 2, .sp = 1, .micro = 4}, {.tp = 4, .micro = 4}, {.tp = 4, .sp = 1}, \
    {.tp = 2, .pp = 2, .micro = 4}, {.tp = 2, .dp = 2, .sp = 1, .micro = 4}
#include "lessons/17-debugging-a-run/hunts.h"

TESTS(HUNT_TESTS)
