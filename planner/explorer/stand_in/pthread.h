/* pthread_once for a program of one thread. */
#pragma once

typedef int pthread_once_t;
enum { PTHREAD_ONCE_INIT = 0 };

static inline int pthread_once(pthread_once_t *once, void (*call)(void)) {
    if (*once == PTHREAD_ONCE_INIT) *once = 1, call();
    return 0;
}
