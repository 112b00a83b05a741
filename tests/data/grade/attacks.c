/* What a submission might do instead of its exercise; tests/more/grade.sh puts one of these into every function of a
 * solution. PROOF: a path outside. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The report, whatever the tests have written, with every "fail" made "pass" in place. */
static int pass_all(const char *path) {
    static char text[1 << 16];
    int fd = open(path, O_RDWR), changed = 0;
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    for (char *at = text; n > 0 && (at = strstr(at, "\nfail")); changed = 1) memcpy(at, "\npass", 5);
    if (changed && pwrite(fd, text, (size_t)n, 0) != n) changed = 0;
    if (fd >= 0) close(fd);
    return changed;
}
static void pass_and_leave(void) {
    pass_all("/report");
    _exit(0);
}
/* What the runner thinks is its report is a file in memory; at the end it is changed and copied. */
static int mine = -1;
static void pass_my_own(void) {
    static char text[1 << 16], name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", mine);
    pass_all(name);
    int fd = open("/report", O_WRONLY | O_APPEND);
    ssize_t n = pread(mine, text, sizeof text, 0);
    _exit(n > 0 && write(fd, text, (size_t)n) == n ? 0 : 3);
}

#if defined ATTACK_bomb
#define LONG "a_long_name_that_makes_the_table_of_names_long_"
__asm__(".altmacro\n.set i, 0\n.macro one n\n.section .data." LONG LONG LONG "\\n, \"aw\"\n.byte 0\n.endm\n"
        ".rept 60000\none %i\n.set i, i + 1\n.endr\n.text\n");
#endif

/* 1: what the solution says is to be wrong. */
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
    static const char *const paths[] = {PROOF, "/work/program", "/tree/tests/proof", "/usr/proof", "/dev/proof",
                                        "/proof"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        /* the first lies in its own /tmp: it may */
        if (open(paths[i], O_WRONLY | O_CREAT, 0666) >= 0 && i > 0) return 0;
    exit(3);
#elif defined ATTACK_forge
    static const char line[] = "pass lessons/x y\nend 0\n";
    signal(SIGPIPE, SIG_IGN);
    for (int fd = 3; fd < 64; fd++) if (write(fd, line, sizeof line - 1) < 0) continue;
#elif defined ATTACK_rewrite
    static int n;
    if (n++ == 0) atexit(pass_and_leave);
    return 1;
#elif defined ATTACK_child
    static int n;
    if (n++ == 0 && fork() == 0) {
        for (int pid = getppid(); getppid() == pid || pass_all("/report");) pass_all("/report");
        _exit(0);
    }
    return 1;
#elif defined ATTACK_steal
    for (int fd = 3; fd < 64 && mine < 0; fd++) {
        char name[32], path[32] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (readlink(name, path, sizeof path - 1) < 0 || strcmp(path, "/report") != 0) continue;
        char text[1 << 10];
        mine = memfd_create("mine", 0);
        ssize_t n = pread(fd, text, sizeof text, 0);
        if (write(mine, text, (size_t)n) != n || ftruncate(fd, 0) != 0) exit(3);
        dup2(mine, fd);
        atexit(pass_my_own);
    }
    return 1;
#elif defined ATTACK_calls
    char params[256] = {0};
    if (syscall(SYS_add_key, "user", "for the next one", "x", 1ul, -3) >= 0 || syscall(SYS_keyctl, 0, -3, 1) >= 0 ||
        syscall(SYS_io_uring_setup, 1, params) >= 0 || socket(AF_VSOCK, SOCK_STREAM, 0) >= 0) return 0;
    exit(3);
#elif defined ATTACK_network
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53), .sin_addr = {htonl(0x08080808)}};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0 && send(fd, "x", 1, 0) == 1) return 0;
    exit(3);
#endif
    return 0;
}
