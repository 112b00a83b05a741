#include "driver/deadline.h"

#include "lib/base/option.h"
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOADING_S = 5, DEFAULT_S = 600 };

static char line[1024]; /* formatted in advance, because a signal handler must not format */
static size_t line_bytes;

/* The handler never returns, so that it may run on any stack (launch/stop.h). */
static void say_and_end(int number) {
    (void)number;
    ssize_t n = write(STDERR_FILENO, line, line_bytes);
    (void)n;
    _exit(1);
}

void deadline_set(double seconds, const char *what) {
    alarm(0);
    FAIL(E_TIMEOUT, "%s did not end within %g s: a rank, a pipe or MPI is stuck; look for ranks that are stopped "
         "or never started, and raise --comm-timeout if it is only slow", what, seconds);
    snprintf(line, sizeof line, "%s\n", status_text());
    line_bytes = strlen(line);
    status_clear();
    signal(SIGALRM, say_and_end);
    alarm((unsigned)ceil(seconds));
}

void deadline_lift(void) { alarm(0); }

/* Read comm-timeout before the options are parsed. The parser later refuses a value that is not a number. */
static double given_timeout(int argc, char **argv) {
    const char *value = options_peek(argc, argv, "comm-timeout");
    double seconds = value ? atof(value) : 0;
    return seconds > 0 && seconds < DEFAULT_S ? seconds : DEFAULT_S;
}

void deadline_set_for_start(int argc, char **argv) {
    deadline_set(given_timeout(argc, argv) + LOADING_S, "the start of MPI and of all ranks");
}
