/* What a submission might do instead of its exercise; tests/grade.sh puts one of these into every function of a solution. PROOF: a path outside. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int attack(void) {
#if defined ATTACK_loop
    for (volatile int i = 0; i >= 0; i = 1) {}
#elif defined ATTACK_forks
    for (;;) if (fork() < 0) usleep(1000);
#elif defined ATTACK_exit
    exit(0);
#elif defined ATTACK_flood
    static char text[1 << 16];
    memset(text, 'x', sizeof text);
    for (;;) if (write(STDOUT_FILENO, text, sizeof text) < 0) exit(1);
#elif defined ATTACK_memory
    volatile char *all = malloc(10ul << 30);
    for (size_t i = 0; i < 10ul << 30; i += 4096) all[i] = 1;
#elif defined ATTACK_kill
    kill(getppid(), SIGKILL);
    kill(-1, SIGKILL);
    for (;;) pause();
#elif defined ATTACK_write
    static const char *const paths[] = {PROOF, "/work/program", "/tree/tests/proof", "/usr/proof", "/dev/proof", "/proof"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (open(paths[i], O_WRONLY | O_CREAT, 0666) >= 0 && i > 0) return 0;    /* the first lies in its own /tmp: it may */
    exit(3);
#elif defined ATTACK_forge
    static const char line[] = "pass lessons/x y\nend 0\n";
    signal(SIGPIPE, SIG_IGN);
    for (int fd = 3; fd < 64; fd++) if (write(fd, line, sizeof line - 1) < 0) continue;
#elif defined ATTACK_network
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {htonl(0x08080808)}};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && send(fd, "x", 1, 0) == 1) return 0;
    exit(3);
#endif
    return 0;
}
