/* ranks: 1  device: cpu
 *
 * A file as a tier: written bytes come back, at any offset and length, with either engine, also on a file system
 * without O_DIRECT. The file has no name, and its full size from the start. Each failure is one line. */
#define _GNU_SOURCE /* O_DIRECT */
#include "lib/base/rng.h"
#include "lib/device/arena.h"
#include "lib/device/disk_private.h"
#include "tests/test.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 700, BYTES = PAGES * DISK_PAGE };      /* more than the bounce buffer has */

static const char *folder(void) {
    const char *path = test_path("disk");
    mkdir(path, 0700);
    return path;
}

static struct disk *open_disk(enum disk_engine_choice engine, const struct disk_calls *calls) {
    struct disk *d;
    assert_ok(disk_open(folder(), BYTES, engine, calls, &d));
    return d;
}

static enum disk_engine_choice engines[] = {DISK_THREADS, DISK_URING};
static int n_engines(void) { return disk_uring ? 2 : 1; }

/* ---- the same as memory ---- */
static void act(const struct device *d, char *place, char *model, char *scratch, uint64_t i) {
    int64_t at = (int64_t)(rng_uniform(1, 0, 4 * i) * BYTES), n = (int64_t)(rng_uniform(1, 0, 4 * i + 1) * 20000);
    int what = (int)(rng_uniform(1, 0, 4 * i + 2) * 3);
    if (i % 40 == 0) at = 0, n = BYTES;
    n = min64(n, BYTES - at);
    for (int64_t k = 0; k < n; k++) scratch[k] = (char)(k * 31 + (int64_t)i);
    if (what == 0) assert_ok(d->upload(d, place + at, scratch, n)), memcpy(model + at, scratch, (size_t)n);
    if (what == 1) assert_ok(d->clear(d, place + at, n)), memset(model + at, 0, (size_t)n);
    if (what == 2) {
        at = at / 8 * 8, n = n / 8 * 8;
        assert_ok(d->fill(d, place + at, ARENA_CANARY, n));
        for (int64_t k = 0; k < n; k += 8) memcpy(model + at + k, &(uint64_t){ARENA_CANARY}, 8);
    }
    assert_ok(d->download(d, scratch, place + at / 2, BYTES - at));
    assert_memory_equal(scratch, model + at / 2, (size_t)(BYTES - at));
}

static void check_as_memory(struct disk *disk) {
    const struct device *d = disk_device(disk);
    char *model = calloc(1, BYTES), *scratch = malloc(BYTES), *place;
    assert_true(model && scratch);
    assert_ok(d->allocate(d, BYTES, (void **)&place));
    for (uint64_t i = 1; i <= 60; i++) act(d, place, model, scratch, i);
    assert_ok(d->copy(d, place + 5, place + 100000, 50000));
    memcpy(model + 5, model + 100000, 50000);
    assert_ok(d->download(d, scratch, place, BYTES));
    assert_memory_equal(scratch, model, BYTES);
    assert_true(d->owns(d, place) && d->owns(d, place + BYTES - 1) && !d->owns(d, place + BYTES));
    free(model);
    free(scratch);
}

TEST(test_disk_keeps_what_memory_keeps) {
    for (int e = 0; e < n_engines(); e++) {
        struct disk *d = open_disk(engines[e], &disk_system_calls);
        check_as_memory(d);
        disk_close(&d);
    }
}

TEST(test_disk_is_an_arena) {
    struct disk *disk;
    struct arena a, b;
    int64_t bytes;
    assert_ok(disk_open(folder(), 2 * arena_held_bytes(3 * DISK_PAGE), DISK_AUTO, &disk_system_calls, &disk));
    assert_ok(arena_init(&a, disk_device(disk), ROLE_PARAM, 3 * DISK_PAGE, true));
    assert_ok(arena_init(&b, disk_device(disk), ROLE_OPTIM, 3 * DISK_PAGE, true));
    assert_ok(a.device->upload(a.device, arena_at(&a, 5000), "x", 1));
    assert_ok(arena_measure(&a, &bytes));
    assert_int_equal(bytes, 5001);
    assert_ok(arena_measure(&b, &bytes));
    assert_int_equal(bytes, 0);
    assert_fails(arena_init(&b, disk_device(disk), ROLE_OPTIM, 1, true), E_MEMORY, "no room");
    arena_fini(&a);
    disk_close(&disk);
}

/* ---- many transfers in flight, whose bytes are counted ---- */
TEST(test_disk_transfers_in_flight) {
    enum { N = 100 };
    for (int e = 0; e < n_engines(); e++) {
        struct disk *disk = open_disk(engines[e], &disk_system_calls);
        static struct disk_io io[N];
        char *memory, *place;
        assert_ok(device_cpu()->allocate(device_cpu(), N * DISK_PAGE, (void **)&memory));
        assert_ok(disk->device.allocate(&disk->device, N * DISK_PAGE, (void **)&place));
        for (int write = 1; write >= 0; write--) {
            for (int i = 0; i < N; i++) {
                memset(memory + i * DISK_PAGE, write ? i : -1, DISK_PAGE);
                io[i] = (struct disk_io){.write = write, .memory = memory + i * DISK_PAGE,
                                         .place = place + (N - 1 - i) * DISK_PAGE, .bytes = DISK_PAGE};
                assert_ok(disk_start(disk, &io[i]));
            }
            for (int i = N - 1; i >= 0; i--) assert_ok(disk_wait(disk, &io[i]));
            assert_ok(disk_wait(disk, &io[0]));                      /* a second wait returns at once */
        }
        for (int i = 0; i < N * DISK_PAGE; i++) assert_int_equal(memory[i], i / DISK_PAGE);
        struct disk_traffic t = disk_traffic(disk);
        assert_true(t.read_bytes == N * DISK_PAGE && t.written_bytes == N * DISK_PAGE && t.wait_s > 0);
        io[0].memory = memory + 8;
        assert_fails(disk_start(disk, &io[0]), E_INTERNAL, "whole pages");
        device_cpu()->release(device_cpu(), memory, N * DISK_PAGE);
        disk_close(&disk);
    }
}

/* ---- opening ---- */
static int files_in(const char *path) {
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

TEST(test_disk_file_has_no_name_and_its_size) {
    struct disk *d = open_disk(DISK_AUTO, &disk_system_calls);
    struct stat is;
    assert_int_equal(files_in(folder()), 0);
    assert_true(fstat(d->fd, &is) == 0 && is.st_size == BYTES && is.st_nlink == 0);
    assert_true(is.st_blocks * 512 >= BYTES);                        /* blocks are reserved */
    assert_int_equal(rmdir(folder()), 0);                            /* the file outlives its folder */
    check_as_memory(d);
    disk_close(&d);
}

static int no_room(int fd, int64_t bytes) {
    (void)fd, (void)bytes;
    return ENOSPC;
}
static int half_of_it(int fd, int64_t bytes) { return posix_fallocate(fd, 0, bytes / 2); }

TEST(test_disk_refuses_in_one_line) {
    struct disk *d;
    struct disk_calls calls = disk_system_calls;
    assert_fails(disk_open("/nowhere/at/all", BYTES, DISK_AUTO, &calls, &d), E_IO, "offload-path=/nowhere/at/all",
                 "No such file", "--offload-path");
    assert_null(d);
    calls.reserve = no_room;
    assert_fails(disk_open(folder(), BYTES, DISK_AUTO, &calls, &d), E_IO, "2.7 MiB", "No space left", "free some");
    calls.reserve = half_of_it;
    assert_fails(disk_open(folder(), BYTES, DISK_AUTO, &calls, &d), E_IO, "instead of", "another folder");
    assert_int_equal(files_in(folder()), 0);
    if (!disk_uring)
        assert_fails(disk_open(folder(), BYTES, DISK_URING, &disk_system_calls, &d), E_DEVICE, "liburing-dev",
                     "threads");
}

/* ---- a container that forbids io_uring ---- */
static void forbid_io_uring(void) {
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog filter = {sizeof program / sizeof *program, program};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter)) _exit(77);
}

/* The child's exit code: 0, a number of the error, or 77 if the system cannot forbid io_uring. */
static int without_io_uring(void) {
    struct disk *d;
    forbid_io_uring();
    if (disk_open(folder(), BYTES, DISK_AUTO, &disk_system_calls, &d) != OK) return 1;
    if (strcmp(disk_engine_name(d), "threads")) return 2;
    disk_close(&d);
    if (disk_open(folder(), BYTES, DISK_URING, &disk_system_calls, &d) != E_DEVICE) return 3;
    return strstr(status_message(), "refuses io_uring: Operation not permitted; use --offload-io threads") ? 0 : 4;
}

TEST(test_disk_goes_by_threads_where_io_uring_is_forbidden) {
    int how;
    if (!disk_uring) skip();
    (void)folder();
    pid_t child = fork();
    if (child == 0) _exit(without_io_uring());
    assert_int_equal(waitpid(child, &how, 0), child);
    if (WEXITSTATUS(how) == 77) skip();
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
}

/* ---- no O_DIRECT ---- */
static int make_no_direct(char *path, int flags) {
    errno = EINVAL;
    return flags & O_DIRECT ? -1 : disk_system_calls.make(path, flags);
}
static ssize_t read_no_direct(int fd, void *to, size_t bytes, off_t at) {
    errno = EINVAL;
    return fcntl(fd, F_GETFL) & O_DIRECT ? -1 : pread(fd, to, bytes, at);
}

static void check_buffered(const struct disk_calls *calls) {
    struct disk *d;
    test_stderr_keep();
    enum status status = disk_open(folder(), BYTES, DISK_AUTO, calls, &d);
    const char *warning = test_stderr_text();
    assert_ok(status);
    assert_non_null(strstr(warning, "refuses O_DIRECT"));
    assert_true(!disk_is_direct(d) && !(fcntl(d->fd, F_GETFL) & O_DIRECT));
    check_as_memory(d);
    disk_close(&d);
}

TEST(test_disk_without_direct_io) {
    struct disk_calls calls = disk_system_calls;
    calls.make = make_no_direct;
    check_buffered(&calls);
    calls = disk_system_calls;
    calls.read = read_no_direct;
    check_buffered(&calls);
}

/* ---- transfers that fail ---- */
static int n_calls;
static ssize_t read_a_page(int fd, void *to, size_t bytes, off_t at) {
    n_calls++;
    return pread(fd, to, bytes < DISK_PAGE ? bytes : DISK_PAGE, at);
}
static ssize_t write_a_page(int fd, const void *from, size_t bytes, off_t at) {
    n_calls++;
    return pwrite(fd, from, bytes < DISK_PAGE ? bytes : DISK_PAGE, at);
}
static ssize_t write_nothing(int fd, const void *from, size_t bytes, off_t at) {
    (void)fd, (void)from, (void)bytes, (void)at;
    errno = ENOSPC;
    return -1;
}

TEST(test_disk_goes_on_after_a_part) {
    const struct disk_calls calls = {disk_system_calls.make, disk_system_calls.reserve, read_a_page, write_a_page};
    struct disk *d = open_disk(DISK_THREADS, &calls);
    n_calls = 0;
    check_as_memory(d);
    assert_true(n_calls > 3 * PAGES);
    disk_close(&d);
}

TEST(test_disk_write_that_fails) {
    struct disk_calls calls = disk_system_calls;
    calls.write = write_nothing;
    struct disk *d = open_disk(DISK_THREADS, &calls);
    assert_fails(d->device.upload(&d->device, d->base + 4096, "x", 1), E_IO, "cannot write 4096 bytes at 4096",
                 "No space", "--resume");
    disk_close(&d);
}

/* Failures of the real system, with both engines: a limit on file sizes, and a shortened file. */
TEST(test_disk_limit_and_shortened_file) {
    char *block = calloc(1, BYTES);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    small = (struct rlimit){DISK_PAGE, before.rlim_max};
    for (int e = 0; e < n_engines(); e++) {
        struct disk *d = open_disk(engines[e], &disk_system_calls);
        setrlimit(RLIMIT_FSIZE, &small);
        enum status status = d->device.upload(&d->device, d->base + 10 * DISK_PAGE, block, DISK_PAGE);
        setrlimit(RLIMIT_FSIZE, &before);
        assert_fails(status, E_IO, "cannot write 4096 bytes at 40960", "File too large");
        assert_int_equal(ftruncate(d->fd, 20 * DISK_PAGE + 100), 0);
        assert_fails(d->device.download(&d->device, block, d->base, BYTES), E_IO, "ends at", "shortened");
        assert_fails(d->device.download(&d->device, block, d->base + 30 * DISK_PAGE, 1), E_IO, "ends at 122880");
        assert_ok(d->device.download(&d->device, block, d->base, 20 * DISK_PAGE));
        disk_close(&d);
    }
    signal(SIGXFSZ, handler);
    free(block);
}

TESTS(unit_test(test_disk_keeps_what_memory_keeps), unit_test(test_disk_is_an_arena),
      unit_test(test_disk_transfers_in_flight), unit_test(test_disk_file_has_no_name_and_its_size),
      unit_test(test_disk_refuses_in_one_line), unit_test(test_disk_goes_by_threads_where_io_uring_is_forbidden),
      unit_test(test_disk_without_direct_io),
      unit_test(test_disk_goes_on_after_a_part), unit_test(test_disk_write_that_fails),
      unit_test(test_disk_limit_and_shortened_file))
