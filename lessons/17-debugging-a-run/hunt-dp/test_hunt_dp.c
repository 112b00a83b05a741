/* ranks: 2 4  device: cpu
 *
 * Replicas, alone and with each of the other axes; one microbatch and several. */
#define LAYOUTS \
    {.dp = 2}, {.dp = 2, .micro = 2}, {.cp = 2, .micro = 4}, {.dp = 4, .micro = 1}, \
    {.dp = 2, .tp = 2, .micro = 4}, {.dp = 2, .pp = 2, .micro = 2}, {.dp = 2, .cp = 2, .micro = 4}
#include "lessons/17-debugging-a-run/hunts.h"

TESTS(HUNT_TESTS)
