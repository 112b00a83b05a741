/* What a waiting rank does between two checks. */
#pragma once

#include <sched.h>
#include <stdlib.h>
#include <time.h>

/** Leave the core to others, after check number `turns` of one wait. With TRIVIUM_NAPS in the environment a wait of
 *  more than 20 checks sleeps for some 0.1 ms: fewer processor seconds where ranks outnumber cores, as in tests, but
 *  each long wait ends that much later. @collective{none} */
static inline void give_way(long turns) {
    static int naps = -1;
    const struct timespec nap = {0, 20000};
    if (naps < 0) naps = getenv("TRIVIUM_NAPS") != NULL;
    if (naps && turns > 20) nanosleep(&nap, NULL);
    else sched_yield();
}
