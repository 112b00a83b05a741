#define _GNU_SOURCE /* ITIMER_PROF, reallocarray */
#include "tests/graded.h"

#include "lib/comm/comm_backend.h"

#include <elf.h>
#include <execinfo.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

extern const char __executable_start, _end;
extern char __data_start __attribute__((weak));

/* Addresses as addr2line takes them: of a program that is loaded anywhere, from its begin. */
static uintptr_t in_program(const void *address) {
    const Elf64_Ehdr *head = (const void *)&__executable_start;
    return (uintptr_t)address - (head->e_type == ET_DYN ? (uintptr_t)head : 0);
}

/* ---- where it is ---- */

static double cpu_s, wall_s;

static void set_timer(int which, double seconds) {
    struct itimerval timer = {.it_value = {(time_t)seconds, (suseconds_t)((seconds - (double)(time_t)seconds) * 1e6)}};
    setitimer(which, &timer, NULL);
}

static void say_place(const char *word, double seconds) {
    void *frame[48];
    char text[1200];
    int n = backtrace(frame, sizeof frame / sizeof *frame);
    int at = snprintf(text, sizeof text, "\nGRADED %s %g", word, seconds);
    for (int i = 1; i < n && at < (int)sizeof text - 32; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, " @%" PRIxPTR, in_program(frame[i]));
    text[at++] = '\n';
    ssize_t written = write(STDERR_FILENO, text, (size_t)at);
    (void)written;
}

static void out_of_time(int number) {
    bool of_launch = number == SIGALRM;
    if (comm_waiting()) {                                        /* the others' limits end this rank */
        if (!of_launch) set_timer(ITIMER_PROF, cpu_s);
        return;
    }
    say_place("stuck", of_launch ? wall_s : cpu_s);
    signal(SIGXCPU, SIG_DFL);
    raise(SIGXCPU);
}

static double seconds_of(const char *name) {
    const char *text = getenv(name);
    return text ? atof(text) : 0;
}

void graded_start(void) {
    void *frame[1];
    cpu_s = seconds_of("TEST_CPU"), wall_s = seconds_of("TEST_WALL");
    if (!cpu_s && !wall_s) return;
    backtrace(frame, 1);                                         /* it loads a library, which a later filter refuses */
    signal(SIGPROF, out_of_time);
    signal(SIGALRM, out_of_time);
    if (wall_s) set_timer(ITIMER_REAL, wall_s);
}

/* ---- the blocks of the graded file: a table by address ---- */

struct block { char *at; size_t bytes; const void *from; int64_t test; bool reached; };
enum { TAIL = 16, FRESH = 0x7f, END = 0x5e };

static struct block *table;
static size_t room, n_blocks;
static int64_t test;                                             /* counts tests */
static struct block beyond;                                      /* freed with a changed end */
static atomic_flag lock = ATOMIC_FLAG_INIT;                      /* threads of the graded file allocate, too */

/* The linker gives these to a grader's program. */
void *__real_realloc(void *, size_t) __attribute__((weak));
void __real_free(void *) __attribute__((weak));
void *__wrap_realloc(void *, size_t);
void __wrap_free(void *);

static size_t place_of(const struct block *in, size_t n, const char *at) {
    size_t i = ((uintptr_t)at >> 4) * 0x9e3779b97f4a7c15 % n;
    while (in[i].at && in[i].at != at) i = (i + 1) % n;
    return i;
}

static bool grow(void) {
    size_t more = room ? 2 * room : 1 << 12;
    struct block *larger = calloc(more, sizeof *larger);
    if (!larger) return false;
    for (size_t i = 0; i < room; i++)
        if (table[i].at) larger[place_of(larger, more, table[i].at)] = table[i];
    __real_free(table);
    table = larger, room = more;
    return true;
}

static bool end_is_whole(const struct block *b) {
    for (int i = 0; i < TAIL; i++)
        if (b->at[b->bytes + (size_t)i] != END) return false;
    return true;
}

static void take_lock(void) { while (atomic_flag_test_and_set(&lock)) continue; }
static void leave_lock(void) { atomic_flag_clear(&lock); }

static void *keep(void *at, size_t bytes, const void *from) {
    if (!at) return NULL;
    memset((char *)at + bytes, END, TAIL);
    take_lock();
    if (n_blocks * 2 < room || grow()) {
        size_t i = place_of(table, room, at);
        n_blocks += !table[i].at;
        table[i] = (struct block){at, bytes, from, test, false};
    }
    leave_lock();
    return at;
}

/* Take the block out of the table, and move back those behind it that were pushed on. */
static void forget(void *at) {
    take_lock();
    size_t i = room ? place_of(table, room, at) : 0;
    if (at && room && table[i].at) {
        if (!end_is_whole(&table[i])) beyond = table[i];
        table[i].at = NULL, n_blocks--;
        for (size_t k = (i + 1) % room; table[k].at; k = (k + 1) % room) {
            struct block b = table[k];
            table[k].at = NULL;
            table[place_of(table, room, b.at)] = b;
        }
    }
    leave_lock();
}

static size_t bytes_of(void *at) {
    take_lock();
    size_t i = room ? place_of(table, room, at) : 0, bytes = room && table[i].at ? table[i].bytes : SIZE_MAX;
    leave_lock();
    return bytes;
}

void __wrap_free(void *at) {
    size_t bytes = at && room ? bytes_of(at) : SIZE_MAX;
    forget(at);
    if (bytes != SIZE_MAX) memset(at, FRESH, bytes);
    __real_free(at);
}

void *__wrap_realloc(void *at, size_t bytes) {
    forget(at);
    return __real_realloc(at, bytes);
}

/* ---- what the graded file calls ---- */
void *Malloc(size_t), *Calloc(size_t, size_t), *Realloc(void *, size_t);
void *Reallocarray(void *, size_t, size_t), *Aligned_alloc(size_t, size_t);
int Posix_memalign(void **, size_t, size_t), Asprintf(char **, const char *, ...);
int Vasprintf(char **, const char *, va_list);
char *Strdup(const char *), *Strndup(const char *, size_t);

static void *fresh(size_t bytes, const void *from) {
    if (bytes > SIZE_MAX - TAIL) return NULL;
    char *at = malloc(bytes + TAIL);
    if (at) memset(at, FRESH, bytes);
    return keep(at, bytes, from);
}

#define CALLER __builtin_return_address(0)
void *Malloc(size_t bytes) { return fresh(bytes, CALLER); }
void *Calloc(size_t n, size_t bytes) {
    size_t all;
    if (__builtin_mul_overflow(n, bytes, &all) || all > SIZE_MAX - TAIL) return NULL;
    return keep(calloc(1, all + TAIL), all, CALLER);
}
static void *moved(void *at, size_t bytes, const void *from) {
    size_t before = at ? bytes_of(at) : 0;
    if (before == SIZE_MAX) return __wrap_realloc(at, bytes);    /* another file's block */
    char *to = fresh(bytes, from);
    if (!to) return NULL;
    if (at) memcpy(to, at, before < bytes ? before : bytes);
    __wrap_free(at);
    return to;
}
void *Realloc(void *at, size_t bytes) { return moved(at, bytes, CALLER); }
void *Reallocarray(void *at, size_t n, size_t bytes) {
    size_t all;
    return __builtin_mul_overflow(n, bytes, &all) ? NULL : moved(at, all, CALLER);
}
void *Aligned_alloc(size_t alignment, size_t bytes) {
    void *at = NULL;
    if (posix_memalign(&at, alignment < sizeof at ? sizeof at : alignment, bytes + TAIL) != 0) return NULL;
    return keep(memset(at, FRESH, bytes), bytes, CALLER);
}
int Posix_memalign(void **out, size_t alignment, size_t bytes) {
    void *at;
    int code = posix_memalign(&at, alignment, bytes + TAIL);
    if (code == 0) *out = keep(memset(at, FRESH, bytes), bytes, CALLER);
    return code;
}
static char *text_of(const char *text, size_t n, const void *from) {
    char *at = fresh(n + 1, from);
    if (at) memcpy(at, text, n), at[n] = 0;
    return at;
}
char *Strdup(const char *text) { return text_of(text, strlen(text), CALLER); }
char *Strndup(const char *text, size_t most) { return text_of(text, strnlen(text, most), CALLER); }
int Vasprintf(char **out, const char *form, va_list list) {
    char *text = NULL;
    int n = vasprintf(&text, form, list);
    if (n >= 0) *out = text_of(text, (size_t)n, CALLER), __real_free(text);
    return n;
}
int Asprintf(char **out, const char *form, ...) {
    va_list list;
    char *text = NULL;
    va_start(list, form);
    int n = vasprintf(&text, form, list);
    va_end(list);
    if (n >= 0) *out = text_of(text, (size_t)n, CALLER), __real_free(text);
    return n;
}

/* ---- what is left ---- */

static int64_t in_flight[N_COMM_OPS];

/* The groups that the graded file has created in this test. */
enum { MOST_GROUPS = 256 };
static const struct group *created[MOST_GROUPS];
static int n_created;
enum status Group_create(const char *, int, int, struct group **);

enum status Group_create(const char *name, int colour, int key, struct group **out) {
    TRY(group_create(name, colour, key, out));
    if (n_created < MOST_GROUPS) created[n_created++] = *out;
    return OK;
}

static int groups_left(void) {
    int n = 0;
    for (const struct group *group = group_first(); group; group = group->next)
        for (int i = 0; i < n_created; i++) n += created[i] == group;
    return n;
}

static void reach(const char *from, size_t bytes) {
    from = (const char *)(((uintptr_t)from + sizeof from - 1) & ~(sizeof from - 1));
    for (size_t i = 0; i + sizeof(char *) <= bytes; i += sizeof(char *)) {
        char *at;
        memcpy(&at, from + i, sizeof at);
        struct block *b = &table[place_of(table, room, at)];
        if (!at || !b->at || b->reached) continue;
        b->reached = true;
        reach(b->at, b->bytes);
    }
}

/* The first block of this test that no variable reaches; how many, and their bytes. */
static const struct block *lost(int64_t *n, size_t *bytes) {
    const struct block *first = NULL;
    *n = 0, *bytes = 0;
    for (size_t i = 0; i < room; i++) table[i].reached = false;
    if (n_blocks && &__data_start) reach(&__data_start, (size_t)(&_end - &__data_start) - sizeof(char *));
    for (size_t i = 0; i < room; i++)
        if (table[i].at && table[i].test == test && !table[i].reached)
            first = &table[i], ++*n, *bytes += table[i].bytes;
    return first;
}

static const struct block *overrun(void) {
    for (size_t i = 0; i < room && !beyond.at; i++)
        if (table[i].at && !end_is_whole(&table[i])) beyond = table[i];
    return beyond.at ? &beyond : NULL;
}

void graded_begin(void) {
    test++;
    beyond.at = NULL;
    n_created = 0;
    for (enum comm_op op = 0; op < N_COMM_OPS; op++) in_flight[op] = comm_in_flight(op);
    if (cpu_s) set_timer(ITIMER_PROF, cpu_s);
}

const char *graded_left(void) {
    static char text[256];
    int64_t n;
    size_t bytes;
    for (enum comm_op op = 0; op < N_COMM_OPS; op++)
        if (comm_in_flight(op) > in_flight[op]) {
            snprintf(text, sizeof text, "still in flight when the test ends: %lld %s that no comm_wait has awaited\n",
                     (long long)(comm_in_flight(op) - in_flight[op]), comm_op_name(op));
            return text;
        }
    if (groups_left()) {
        snprintf(text, sizeof text, "%d of the groups that it has created are not destroyed when the test ends\n",
                 groups_left());
        return text;
    }
    const struct block *b = overrun();
    if (b) {
        snprintf(text, sizeof text, "it writes beyond the end of a block of %zu bytes that it allocates (@%" PRIxPTR
                 ")\n", b->bytes, in_program(b->from) - 1);
        return text;
    }
    b = lost(&n, &bytes);
    if (!b) return NULL;
    snprintf(text, sizeof text, "it does not free what it allocates: %lld block%s, %zu bytes in this test (@%" PRIxPTR
             ")\n", (long long)n, n == 1 ? "" : "s", bytes, in_program(b->from) - 1);
    return text;
}
