#define _GNU_SOURCE /* sigaction */
#include "driver/stop.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t asked;

static void note(int number) {
    (void)number;
    asked = 1;
}

void stop_listen(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = note;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
}

bool stop_was_asked(void) { return asked != 0; }
