/* A fuzz target without a fuzzer: it runs every seed of the target, then mutations of them, the same ones on every
 * machine. So `make check` runs the targets with any compiler. Only libFuzzer searches for new paths (`make fuzz`).
 *
 *   replay-NAME N FAILED FILE|FOLDER...      N mutations; an input that ends the process is kept in FAILED */
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INPUTS = 4096, MAX_BYTES = 1 << 16, HANG_S = 10 };

struct input { uint8_t *data; size_t size; char name[128]; };
static struct input inputs[MAX_INPUTS];
static int n_inputs;

/* ---- the end of the process ---- */

static const char *failed_path;
static const uint8_t *now;
static size_t now_size;

/* A signal handler: it makes only calls that are allowed there. */
static void keep_and_die(int number) {
    static const char hang[] = "\nno answer within 10 s\n", kept[] = "\nthe input is in ";
    if (number == SIGALRM && write(STDERR_FILENO, hang, sizeof hang - 1) < 0) _exit(1);
    int fd = open(failed_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, now, now_size) == (ssize_t)now_size && write(STDERR_FILENO, kept, sizeof kept - 1) > 0 &&
        write(STDERR_FILENO, failed_path, strlen(failed_path)) > 0 && write(STDERR_FILENO, "\n", 1) > 0)
        close(fd);
    _exit(1);
}

/* The sanitizers read their settings from these; a report must arrive as a signal. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1:handle_abort=0:allocator_may_return_null=1"; }
const char *__ubsan_default_options(void);
const char *__ubsan_default_options(void) { return "abort_on_error=1:print_stacktrace=1"; }

static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size); /* of exactly this size, so that a read beyond it is noticed */
    if (size) memcpy(copy, data, size);
    now = copy;
    now_size = size;
    alarm(HANG_S);
    LLVMFuzzerTestOneInput(copy, size);
    alarm(0);
    free(copy);
}

/* ---- inputs ---- */

static void refuse(const char *path) {
    fprintf(stderr, "cannot take %s\n", path);
    exit(1);
}

/* The next n bytes of a file, or as many as there are. */
static struct input *add_input(FILE *f, const char *path, const char *name, size_t n) {
    struct input *in = &inputs[n_inputs];
    if (n > MAX_BYTES || n_inputs == MAX_INPUTS || !(in->data = malloc(n + 1))) refuse(path);
    snprintf(in->name, sizeof in->name, "%s", name);
    in->size = fread(in->data, 1, n, f);
    n_inputs++;
    return in;
}

/* This program is replay-TARGET. Of the records of seeds.py (a line "TARGET/NAME BYTES", the bytes, a line break) the
 * target's own are inputs. */
static const char *target;
static void add_seeds(FILE *f, const char *path) {
    char name[128];
    size_t n, own = strlen(target);
    while (fscanf(f, "%127s %zu", name, &n) == 2) {
        if (getc(f) != '\n') refuse(path);
        if (strncmp(name, target, own) != 0 || name[own] != '/') fseek(f, (long)n, SEEK_CUR);
        else if (add_input(f, path, name + own + 1, n)->size != n) refuse(path);
        if (getc(f) != '\n') refuse(path);
    }
    if (!feof(f)) refuse(path);
}

static void add_file(const char *path) {
    FILE *f = fopen(path, "rb");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (!f) refuse(path);
    if (strcmp(name, "seeds") == 0) add_seeds(f, path);
    else add_input(f, path, name, MAX_BYTES);
    fclose(f);
}

static void add(const char *path) {
    struct dirent **entries;
    char file[4096];
    int n = scandir(path, &entries, NULL, alphasort);
    if (n < 0) add_file(path);
    for (int i = 0; i < n; i++) {
        if (entries[i]->d_name[0] != '.') {
            snprintf(file, sizeof file, "%s/%s", path, entries[i]->d_name);
            add_file(file);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

/* In the order of names, so that the mutations are the same everywhere. */
static int by_name(const void *a, const void *b) {
    return strcmp(((const struct input *)a)->name, ((const struct input *)b)->name);
}

/* ---- mutations ---- */

static uint64_t seed = 1;

/* Source: Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016: splitmix64. */
static uint64_t draw(uint64_t below) {
    uint64_t z = seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return (z ^ z >> 31) % below;
}

static uint8_t bytes[MAX_BYTES];
static size_t n_bytes;

/* Put n bytes in place of `cut` bytes at `at`. */
static void replace(size_t at, size_t cut, const void *with, size_t n) {
    if (n_bytes - cut + n > MAX_BYTES) return;
    memmove(bytes + at + n, bytes + at + cut, n_bytes - at - cut);
    memcpy(bytes + at, with, n);
    n_bytes += n - cut;
}

/* Numbers on which parsers often fail, in the bytes of a binary file ... */
static void put_binary_number(size_t at) {
    static const uint64_t numbers[] = {0, 1, 7, 8, 127, 128, 255, 256, 32767, 32768, 65535, 65536, INT32_MAX,
                                       1ull << 31, UINT32_MAX, 1ull << 32,
                                       100000000, 100000001, INT64_MAX, 1ull << 63, UINT64_MAX, 1ull << 61, 1ull << 62};
    uint64_t x = numbers[draw(sizeof numbers / sizeof *numbers)];
    size_t n = (size_t)1 << draw(4);
    if (at + n <= n_bytes) memcpy(bytes + at, &x, n);
}

/* ... and in place of a number in a text. */
static void put_decimal_number(size_t at) {
    static const char *const numbers[] = {"0",
                                          "-1",
                                          "1",
                                          "2",
                                          "127",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9007199254740993",
                                          "9223372036854775807",
                                          "9223372036854775808",
                                          "18446744073709551615",
                                          "2305843009213693952",
                                          "1e308",
                                          "1e999",
                                          "-0",
                                          "0x10",
                                          "nan"};
    const char *number = numbers[draw(sizeof numbers / sizeof *numbers)];
    size_t n = 0;
    while (at < n_bytes && (bytes[at] < '0' || bytes[at] > '9')) at++;
    while (at + n < n_bytes && bytes[at + n] >= '0' && bytes[at + n] <= '9') n++;
    replace(at, n, number, strlen(number));
}

static void duplicate(size_t at) {
    uint8_t part[256];
    size_t n = 1 + draw(n_bytes - at < sizeof part ? n_bytes - at : sizeof part);
    memcpy(part, bytes + at, n);
    replace(draw(n_bytes + 1), 0, part, n);
}

/* Join the beginning of this input and the end of another one. */
static void splice(size_t at) {
    const struct input *other = &inputs[draw((uint64_t)n_inputs)];
    size_t from = draw(other->size + 1);
    replace(at, n_bytes - at, other->data + from, other->size - from);
}

static void mutate(void) {
    size_t at = n_bytes ? draw(n_bytes) : 0;
    if (n_bytes == 0) {
        uint8_t byte = (uint8_t)draw(256);
        replace(0, 0, &byte, 1);
        return;
    }
    switch (draw(9)) {
    case 0: bytes[at] ^= (uint8_t)(1u << draw(8)); break;
    case 1: bytes[at] = (uint8_t)draw(256); break;
    case 2: bytes[at] = (uint8_t)"\"{}[],:=-+.0919 \n#;|"[draw(20)]; break;
    case 3: n_bytes = at; break;
    case 4: replace(at, 1 + draw(n_bytes - at), "", 0); break;
    case 5: duplicate(at); break;
    case 6: splice(at); break;
    case 7: put_binary_number(at); break;
    default: put_decimal_number(at);
    }
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "%s MUTATIONS FAILED FILE|FOLDER...\n", argv[0]), 2;
    failed_path = argv[2];
    target = strrchr(argv[0], '/');
    target = target ? target + 1 : argv[0];
    if (strncmp(target, "replay-", 7) != 0) return fprintf(stderr, "%s is not replay-TARGET\n", argv[0]), 2;
    target += 7;
    signal(SIGABRT, keep_and_die);
    signal(SIGALRM, keep_and_die);
    for (int i = 3; i < argc; i++) add(argv[i]);
    qsort(inputs, (size_t)n_inputs, sizeof *inputs, by_name);
    for (int i = 0; i < n_inputs; i++) run(inputs[i].data, inputs[i].size);
    long n = n_inputs ? strtol(argv[1], NULL, 10) : 0;
    for (long i = 0; i < n; i++) {
        const struct input *in = &inputs[draw((uint64_t)n_inputs)];
        memcpy(bytes, in->data, n_bytes = in->size);
        for (uint64_t k = 1 + draw(4); k > 0; k--) mutate();
        run(bytes, n_bytes);
    }
    for (int i = 0; i < n_inputs; i++) free(inputs[i].data);
    fprintf(stderr, "%d inputs, %ld mutations\n", n_inputs, n);
    return n_inputs ? 0 : 1;
}
