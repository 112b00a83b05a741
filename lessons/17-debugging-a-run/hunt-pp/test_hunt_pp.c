/* ranks: 2 4  device: cpu
 *
 * Pipelines with several microbatches, and replicas with them. */
#define LAYOUTS \
    {.pp = 2, .micro = 2}, {.pp = 2, .micro = 4}, {.dp = 2, .micro = 2}, {.pp = 4, .micro = 2}, \
    {.pp = 2, .dp = 2, .micro = 4}, {.pp = 2, .tp = 2, .micro = 2}
#include "lessons/17-debugging-a-run/hunts.h"

TESTS(HUNT_TESTS)
