/* ranks: 2 4  device: cpu
 *
 * Sharded states, gradients and weights; and replicas without shards. */
#define LAYOUTS \
    {.dp = 2, .zero = 1}, {.dp = 2, .zero = 2, .micro = 2}, {.dp = 2, .zero = 3, .micro = 4}, {.dp = 2}, \
    {.dp = 4, .zero = 1, .micro = 2}, {.dp = 2, .tp = 2, .zero = 1}, \
    {.dp = 2, .pp = 2, .zero = 2, .micro = 2}
#include "lessons/17-debugging-a-run/hunts.h"

TESTS(HUNT_TESTS)
