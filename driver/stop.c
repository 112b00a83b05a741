#define _GNU_SOURCE /* sigtimedwait */
#include "driver/stop.h"

#include <signal.h>
#include <stddef.h>
#include <time.h>

static sigset_t requests(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
}

void stop_listen(void) {
    sigset_t set = requests();
    sigprocmask(SIG_BLOCK, &set, NULL);                              /* in this thread, and so in all that it starts */
    signal(SIGUSR1, SIG_DFL);                                        /* an ignored signal would not be kept */
}

bool stop_was_asked(void) {
    static bool asked;
    sigset_t set = requests();
    struct timespec at_once = {0, 0};
    while (sigtimedwait(&set, NULL, &at_once) == SIGUSR1) asked = true;
    return asked;
}
