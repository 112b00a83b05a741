#define _GNU_SOURCE /* sigtimedwait */
#include "launch/stop.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static sigset_t requests(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    return set;
}

/* ---- Ctrl-C ---- */
static void *await_interrupt(void *unused) {
    static const char line[] = INTERRUPTED "\n";
    sigset_t set;
    int number;
    (void)unused;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    while (sigwait(&set, &number) != 0) continue;
    (void)!write(STDERR_FILENO, line, sizeof line - 1);
    _exit(EXIT_INTERRUPTED);
}

/* Under mpirun or srun these end the ranks. A SIGINT that nohup or a shell's & ignores stays ignored. */
static void listen_for_interrupt(void) {
    struct sigaction now;
    pthread_t thread;
    sigset_t set;
    sigaction(SIGINT, NULL, &now);
    if (now.sa_handler == SIG_IGN || getenv("OMPI_COMM_WORLD_RANK") || getenv("PMI_RANK") || getenv("SLURM_PROCID"))
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigprocmask(SIG_BLOCK, &set, NULL);
    if (pthread_create(&thread, NULL, await_interrupt, NULL) == 0) pthread_detach(thread);
    else sigprocmask(SIG_UNBLOCK, &set, NULL);                       /* SIGINT then ends the process without the line */
}

/* ---- the request to save and leave ---- */
void stop_listen(void) {
    sigset_t set = requests();
    sigprocmask(SIG_BLOCK, &set, NULL);                              /* in this thread and those that it starts */
    signal(SIGUSR1, SIG_DFL);                                        /* an ignored signal would be discarded */
    listen_for_interrupt();
}

bool stop_was_asked(void) {
    static bool asked;
    sigset_t set = requests();
    struct timespec at_once = {0, 0};
    while (sigtimedwait(&set, NULL, &at_once) == SIGUSR1) asked = true;
    return asked;
}
