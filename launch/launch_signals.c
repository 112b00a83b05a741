/* Signals to launch arrive as bytes in a pipe, so that a loop can wait for them and for text at once. */
#include "launch/launch.h"
#include "lib/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { READ_END, WRITE_END };

static int signal_pipe[2];
static const int watched[] = {SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGPIPE};
enum { N_WATCHED = sizeof watched / sizeof *watched };
static struct sigaction watched_before[N_WATCHED];

static void note_signal(int number) {
    int saved = errno;
    unsigned char byte = (unsigned char)number;
    ssize_t n = write(signal_pipe[WRITE_END], &byte, 1);
    (void)n; /* if the pipe is full, enough signals wait in it */
    errno = saved;
}

enum status launch_pipe(int fd[2]) {
    if (pipe(fd) != 0)
        return FAIL(E_IO, "cannot make a pipe: %s; close other programs or raise `ulimit -n`", strerror(errno));
    for (int end = 0; end < 2; end++) fcntl(fd[end], F_SETFD, FD_CLOEXEC);
    return OK;
}

enum status launch_watch_signals(void) {
    TRY(launch_pipe(signal_pipe));
    for (int end = 0; end < 2; end++) fcntl(signal_pipe[end], F_SETFL, O_NONBLOCK);
    struct sigaction note = {.sa_handler = note_signal, .sa_flags = SA_RESTART}, ignore = {.sa_handler = SIG_IGN};
    for (int k = 0; k < N_WATCHED; k++) {
        sigaction(watched[k], NULL, &watched_before[k]);
        /* signals that nohup(1) or a parent ignores stay ignored */
        if (watched_before[k].sa_handler != SIG_IGN || watched[k] == SIGCHLD)
            sigaction(watched[k], watched[k] == SIGPIPE ? &ignore : &note, NULL); /* write reports EPIPE */
    }
    return OK;
}

void launch_unwatch_signals(void) {
    for (int k = 0; k < N_WATCHED; k++) sigaction(watched[k], &watched_before[k], NULL);
    for (int end = 0; end < 2; end++) close(signal_pipe[end]);
}

int launch_signal_fd(void) { return signal_pipe[READ_END]; }

int launch_next_signal(void) {
    unsigned char byte;
    return read(signal_pipe[READ_END], &byte, 1) == 1 ? byte : 0;
}

int launch_pause(double seconds) {
    for (double until = clock_s() + seconds, left = seconds; left >= 0; left = until - clock_s()) {
        struct pollfd wanted = {signal_pipe[READ_END], POLLIN, 0};
        poll(&wanted, 1, (int)(1e3 * left) + 1);
        for (int number; (number = launch_next_signal()) != 0;)
            if (number != SIGCHLD) return number;
    }
    return 0;
}
