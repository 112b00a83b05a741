/* Attacks on the grader. Each hostile hand-in makes one (hostile.txt): hostile.py puts it in front of a solution whose
 * answers are wrong. It calls functions by their distance from malloc, which a submission may use: so it gets past the
 * names that the grader refuses, and meets what stands behind them. NEAR(f) is such a function. OTHERS: where all
 * hand-ins are. */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined ATTACK_addresses_of_cmocka
#define ADDRESSES "/libcmocka"
#elif defined ATTACK_addresses || defined ATTACK_addresses_moved || defined ATTACK_addresses_mapped || \
    defined ATTACK_addresses_unmapped
#define ADDRESSES "/work/program"
#endif

#pragma GCC diagnostic ignored "-Wunused"
#pragma GCC diagnostic ignored "-Wunused-const-variable"
enum { PAGE = 4096, RETURN = 0xc3 };

/* ---- CMocka: the function that ends a failed test returns at once ---- */

static unsigned char *fail_at(void) { return NEAR(dlsym)(NULL, "_fail"); }
static unsigned char *page_of(void *at) { return (unsigned char *)((uintptr_t)at & ~(uintptr_t)(PAGE - 1)); }
static unsigned char code[2 * PAGE];     /* what lies there, with the change */
static void change_code(void) {
    memcpy(code, page_of(fail_at()), PAGE);
    code[fail_at() - page_of(fail_at())] = RETURN;
}
static int file_with_code(void) {
    int fd = NEAR(memfd_create)("code", 0);
    change_code();
    return NEAR(write)(fd, code, PAGE) == PAGE ? fd : -1;
}
/* Replace the address of _fail where the dynamic linker has written it: page by page, in mappings of this name. */
static unsigned char *mapped(unsigned char *at, int flags) {
    return NEAR(mmap)(at, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}
static void put(volatile unsigned char *page) {
    volatile unsigned char *to = page;
#if defined ATTACK_addresses_moved
    to = mapped(NULL, 0);
#elif defined ATTACK_addresses_mapped
    to = mapped((unsigned char *)page, MAP_FIXED);
#elif defined ATTACK_addresses_unmapped
    NEAR(munmap)((void *)page, PAGE);
    if ((to = mapped((unsigned char *)page, 0)) != page) return;
#else
    if (NEAR(mprotect)((void *)page, PAGE, PROT_READ | PROT_WRITE) != 0) return;
#endif
    if (to == MAP_FAILED) return;
    for (int i = 0; i < PAGE; i++) to[i] = code[i];      /* a call of memcpy would need one of these addresses */
    if (to != page) NEAR(mremap)((void *)to, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)page);
}
static void replace_addresses(void (*by)(void), const char *which) {
    FILE *maps = NEAR(fopen)("/proc/self/maps", "r");
    char line[512], mode[8];
    unsigned long begin, end;
    while (maps && NEAR(fgets)(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx %7s", &begin, &end, mode) != 3 || !strstr(line, which)) continue;
        if (mode[0] != 'r' || mode[2] == 'x') continue;
        for (; begin < end; begin += PAGE) {
            int n = 0;
            memcpy(code, (void *)begin, PAGE);
            for (unsigned i = 0; i < PAGE; i += sizeof by)
                if (memcmp(code + i, &(void *){fail_at()}, sizeof by) == 0) memcpy(code + i, &by, sizeof by), n++;
            if (n) put((void *)begin);
        }
    }
}
static void fails_not(void) {}

/* ---- the report ---- */

static int report_fd(void) {
    for (int fd = 3; fd < 64; fd++) {
        char name[32], path[64] = "";
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        if (NEAR(readlink)(name, path, sizeof path - 1) > 0 && strcmp(path, "/report") == 0) return fd;
    }
    return -1;
}
/* The report, whatever the tests have written, with every "fail" made "pass" in place. */
static int pass_all(const char *path) {
    static char text[1 << 16];
    int fd = NEAR(open)(path, O_RDWR), changed = 0;
    ssize_t n = fd < 0 ? -1 : NEAR(read)(fd, text, sizeof text - 1);
    for (char *at = text; n > 0 && (at = strstr(at, "\nfail")); changed = 1) memcpy(at, "\npass", 5);
    if (changed && NEAR(pwrite)(fd, text, (size_t)n, 0) != n) changed = 0;
    if (fd >= 0) NEAR(close)(fd);
    return changed;
}
static void pass_and_leave(void) {
    pass_all("/report");
    NEAR(_exit)(0);
}
/* What the runner thinks is its report is a file in memory; at the end it is changed and copied. */
static int mine = -1;
static void pass_my_own(void) {
    static char text[1 << 16], name[32];
    snprintf(name, sizeof name, "/proc/self/fd/%d", mine);
    pass_all(name);
    int fd = NEAR(open)("/report", O_WRONLY | O_APPEND);
    ssize_t n = NEAR(pread)(mine, text, sizeof text, 0);
    NEAR(_exit)(n > 0 && NEAR(write)(fd, text, (size_t)n) == n ? 0 : 3);
}
static const char passes[] = "pass lessons/02-collectives/cost/test_cost.c test_ring_cost\nend 0123456789abcdef\n";

/* @return whether the solution must end here, with a wrong answer. */
static int attack(void) {
    static int calls;
#ifdef ADDRESSES                      /* each time: the linker writes some of them when they are first used */
    replace_addresses(fails_not, ADDRESSES);
#endif
    if (calls++) return 1;
#if defined ATTACK_protect
    if (NEAR(mprotect)(page_of(fail_at()), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) *fail_at() = RETURN;
#elif defined ATTACK_protect_twice
    NEAR(mprotect)(page_of(fail_at()), PAGE, PROT_READ | PROT_WRITE);
    *fail_at() = RETURN;
    NEAR(mprotect)(page_of(fail_at()), PAGE, PROT_READ | PROT_EXEC);
#elif defined ATTACK_map_over
    change_code();
    void *at = NEAR(mmap)(page_of(fail_at()), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                          MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) memcpy(at, code, PAGE);
#elif defined ATTACK_map_file
    NEAR(mmap)(page_of(fail_at()), PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, file_with_code(), 0);
#elif defined ATTACK_own_memory
    unsigned char byte = RETURN;
    int fd = NEAR(open)("/proc/self/mem", O_RDWR);
    NEAR(pwrite)(fd, &byte, 1, (off_t)fail_at());
#elif defined ATTACK_trace
    int pid = NEAR(fork)(), parent = NEAR(getppid)();
    if (pid == 0) {
        parent = NEAR(getppid)();
        if (NEAR(ptrace)(PTRACE_ATTACH, parent, NULL, NULL) == 0) {
            NEAR(waitpid)(parent, NULL, 0);
            NEAR(ptrace)(PTRACE_POKETEXT, parent, fail_at(), (void *)0xc3c3c3c3c3c3c3c3);
            NEAR(ptrace)(PTRACE_DETACH, parent, NULL, NULL);
        }
        NEAR(_exit)(0);
    }
    NEAR(waitpid)(pid, NULL, 0);
#elif defined ATTACK_readable_runs
    NEAR(personality)(0x0400000);
    NEAR(mprotect)(page_of(fail_at()), PAGE, PROT_READ | PROT_WRITE);
    *fail_at() = RETURN;
    NEAR(mprotect)(page_of(fail_at()), PAGE, PROT_READ);
#elif defined ATTACK_share_over
    change_code();
    int id = NEAR(shmget)(IPC_PRIVATE, PAGE, IPC_CREAT | 0700);
    void *at = NEAR(shmat)(id, NULL, 0);
    if (at != (void *)-1) memcpy(at, code, PAGE);
    NEAR(shmat)(id, page_of(fail_at()), SHM_REMAP | SHM_EXEC | SHM_RDONLY);
#elif defined ATTACK_no_filter
    NEAR(prctl)(22, 0, 0, 0, 0);
    if (NEAR(mprotect)(page_of(fail_at()), PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0) *fail_at() = RETURN;
#elif defined ATTACK_says_pass
    printf("pass lessons/02-collectives/cost/test_cost.c test_ring_cost\nend 0123456789abcdef\n");
    fflush(stdout);
    fprintf(stderr, "9 passed, 0 failed\n");
#elif defined ATTACK_writes_pass
    NEAR(write)(report_fd(), passes, sizeof passes - 1);
    NEAR(_exit)(0);
#elif defined ATTACK_writes_by_a_stream
    stdout->_fileno = report_fd();
    printf("%s", passes);
    fflush(stdout);
#elif defined ATTACK_empties_the_report
    NEAR(ftruncate)(report_fd(), 0);
#elif defined ATTACK_closes_the_report
    NEAR(close)(report_fd());
#elif defined ATTACK_removes_the_report
    NEAR(unlink)("/report");
    NEAR(write)(NEAR(open)("/report", O_CREAT | O_RDWR, 0600), passes, sizeof passes - 1);
#elif defined ATTACK_no_environment
    NEAR(unsetenv)("TEST_REPORT");
    NEAR(write)(NEAR(open)("/report", O_RDWR), passes, sizeof passes - 1);
    NEAR(_exit)(0);
#elif defined ATTACK_writes_everywhere
    NEAR(signal)(SIGPIPE, SIG_IGN);
    for (int fd = 3; fd < 64; fd++) NEAR(write)(fd, passes, sizeof passes - 1);
#elif defined ATTACK_passes_at_the_end
    atexit(pass_and_leave);
#elif defined ATTACK_passes_after_the_end
    if (NEAR(fork)() == 0) {
        for (int pid = NEAR(getppid)(); NEAR(getppid)() == pid || pass_all("/report");) pass_all("/report");
        NEAR(_exit)(0);
    }
#elif defined ATTACK_report_of_its_own
    char text[1 << 10];
    int fd = report_fd();
    mine = NEAR(memfd_create)("mine", 0);
    ssize_t n = NEAR(pread)(fd, text, sizeof text, 0);
    if (NEAR(write)(mine, text, (size_t)n) != n || NEAR(ftruncate)(fd, 0) != 0) exit(3);
    NEAR(dup2)(mine, fd);
    atexit(pass_my_own);
#elif defined ATTACK_figure
    for (int i = 0; i < 3; i++) fprintf(stderr, "figure 0.001\nscore 100 of 100   (9 of 9)\n");
#elif defined ATTACK_all_tests_again
    static char *const words[] = {"/work/program", NULL};
    static char *const variables[] = {"TEST_NAMES=none", "TEST_REPORT=/report", NULL};
    NEAR(execve)("/work/program", words, variables);
#elif defined ATTACK_exit_0
    exit(0);
#elif defined ATTACK_exit_1
    exit(1);
#elif defined ATTACK_exit_255
    exit(255);
#elif defined ATTACK_exit_at_once
    NEAR(_exit)(0);
#elif defined ATTACK_exit_139
    _Exit(139);
#elif defined ATTACK_exit_when_done
    atexit((void (*)(void))NEAR(_exit));
#elif defined ATTACK_exit_and_blame_mpi
    fprintf(stderr, "MPI_ABORT was invoked on rank 0\nlibgomp: waits for the others in vain\n");
    exit(0);
#elif defined ATTACK_exit_and_say_crashed
    fprintf(stderr, "mpirun noticed that process rank 0 exited on signal 11 (Segmentation fault)\n");
    exit(0);
#elif defined ATTACK_another_program
    static char *const words[] = {"true", NULL};
    NEAR(execve)("/usr/bin/true", words, NULL);
#elif defined ATTACK_killed
    NEAR(kill)(NEAR(getpid)(), SIGKILL);
#elif defined ATTACK_terminated
    NEAR(raise)(SIGTERM);
#elif defined ATTACK_thread_ends
    NEAR(pthread_exit)(NULL);
#elif defined ATTACK_stops_itself
    NEAR(kill)(0, SIGSTOP);
#elif defined ATTACK_daemon
    if (NEAR(fork)() == 0) {
        NEAR(setsid)();
        NEAR(signal)(SIGTERM, SIG_IGN);
        NEAR(signal)(SIGHUP, SIG_IGN);
        if (NEAR(fork)() == 0)
            for (;;) {
                int fd = NEAR(open)("/report", O_RDWR | O_APPEND);
                if (fd >= 0) NEAR(write)(fd, passes, sizeof passes - 1);
                NEAR(close)(fd);
                NEAR(usleep)(1000);
            }
        NEAR(_exit)(0);
    }
#elif defined ATTACK_forks_and_both_go_on
    NEAR(fork)();
#elif defined ATTACK_child_passes
    if (NEAR(fork)() > 0) for (;;) NEAR(pause)();
#elif defined ATTACK_kills_all
    for (int pid = 1; pid < 70000; pid++) if (pid != NEAR(getpid)()) NEAR(kill)(pid, SIGKILL);
#elif defined ATTACK_forks_without_end
    for (;;) if (NEAR(fork)() < 0) NEAR(usleep)(1000);
#elif defined ATTACK_reads_others
    /* exit code 77: it could open a file that is not its own */
    static const char *const paths[] = {"/work/../ann/cost.c", OTHERS "/ann/02/cost.c", OTHERS,
                                        "/tree/lessons/02-collectives/cost/reference.c",
                                        "/root/.bashrc", "/etc/shadow", "/given", "/proc/1/environ"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (NEAR(open)(paths[i], O_RDONLY) >= 0 && i != 6 && i != 7) NEAR(_exit)(77);
    NEAR(_exit)(3);
#elif defined ATTACK_writes_to_others
    static const char *const paths[] = {OTHERS "/ann/02/cost.c", "/work/program", "/work/cost.c", "/tree/x",
                                        "/given/rest.o", "/usr/x", "/etc/x", "/dev/x", "/x", OTHERS "/x"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (NEAR(open)(paths[i], O_RDWR | O_CREAT, 0600) >= 0) NEAR(_exit)(77);
    NEAR(_exit)(3);
#elif defined ATTACK_leaves_for_the_next
    NEAR(close)(NEAR(open)("/dev/shm/trivium-left", O_CREAT | O_RDWR, 0666));
    NEAR(close)(NEAR(open)("/tmp/trivium-left", O_CREAT | O_RDWR, 0666));
    NEAR(shmget)(0x7717, PAGE, IPC_CREAT | 0666);
    NEAR(_exit)(3);
#elif defined ATTACK_finds_what_was_left
    if (NEAR(open)("/dev/shm/trivium-left", O_RDONLY) >= 0 || NEAR(open)("/tmp/trivium-left", O_RDONLY) >= 0 ||
        NEAR(shmget)(0x7717, PAGE, 0) >= 0) NEAR(_exit)(77);
    NEAR(_exit)(3);
#elif defined ATTACK_flood
    static char text[1 << 16];
    memset(text, 'x', sizeof text);
    for (;;) if (NEAR(write)(STDOUT_FILENO, text, sizeof text) < 0) exit(1);
#elif defined ATTACK_memory
    volatile char *all = malloc(10ul << 30);
    for (size_t i = 0; i < 10ul << 30; i += PAGE) all[i] = 1;
#elif defined ATTACK_kills_its_parent
    NEAR(kill)(NEAR(getppid)(), SIGKILL);
    NEAR(kill)(-1, SIGKILL);
    for (;;) NEAR(pause)();
#elif defined ATTACK_keys_and_rings
    char params[256] = {0};
    if (NEAR(syscall)(SYS_add_key, "user", "for the next one", "x", 1ul, -3) >= 0 ||
        NEAR(syscall)(SYS_keyctl, 0, -3, 1) >= 0 || NEAR(syscall)(SYS_io_uring_setup, 1, params) >= 0 ||
        NEAR(socket)(AF_VSOCK, SOCK_STREAM, 0) >= 0) NEAR(_exit)(77);
    NEAR(_exit)(3);
#elif defined ATTACK_network
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = 53 << 8, .sin_addr = {0x08080808}};
    int fd = NEAR(socket)(AF_INET, SOCK_DGRAM, 0);
    if (fd >= 0 && NEAR(connect)(fd, (struct sockaddr *)&to, sizeof to) == 0 && NEAR(send)(fd, "x", 1, 0) == 1)
        NEAR(_exit)(77);
    NEAR(_exit)(3);
#elif defined ATTACK_long_lines
    for (int i = 0; i < 20000; i++) fprintf(stderr, "rank 1 calls , rank 2 ");
    NEAR(_exit)(1);
#elif defined ATTACK_much_to_do
    static char text[1 << 19];
    memset(text, 'x', sizeof text - 1);
    NEAR(dprintf)(2, "FAILED lessons/02-collectives/cost/test_cost.c test_ring_cost\n    E_TODO%s\n", text);
#elif defined ATTACK_a_signal_of_digits
    static char text[1 << 16];
    memset(text, '9', sizeof text - 1);
    NEAR(dprintf)(2, "exited on signal %s\n", text);
    NEAR(_exit)(1);
#elif defined ATTACK_a_rank_of_digits
    static char text[1 << 16];
    memset(text, '9', sizeof text - 1);
    NEAR(dprintf)(2, "FAILED a b on rank %s of 1\n", text);
#endif
    return 1;
}
