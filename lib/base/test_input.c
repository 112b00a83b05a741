/* ranks: 1  device: cpu  Hostile input files: a FIFO, a device without end, one long line. */
#include "lib/base/input.h"
#include "lib/base/json_file.h"
#include "tests/test.h"
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct input in;

static const char *file_of(const char *name, const char *text, size_t n) {
    const char *path = test_path(name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

TEST(test_lines_have_numbers_and_their_ends) {
    assert_ok(input_open(&in, "", file_of("input-lines", "ab\n\nc", 5), INPUT_FILE, 3));
    static const char *const lines[] = {"ab\n", "\n", "c", ""};
    for (int i = 0; i < 4; i++) {
        assert_ok(input_line(&in));
        assert_int_equal(in.number, i + 1);
        assert_int_equal(in.n, strlen(lines[i]));
        assert_string_equal(in.text, lines[i]);
    }
    input_close(&in);
}

TEST(test_a_longer_line_is_refused_by_its_limit) {
    const char *path = file_of("input-long", "ab\nabcd\n", 8);
    assert_ok(input_open(&in, "the list ", path, INPUT_FILE, 4));
    assert_ok(input_line(&in));
    assert_fails(input_line(&in), E_FORMAT, "the list ", "input-long, line 2", "more than 4 bytes");
    input_close(&in);
    assert_ok(input_open(&in, "", "/dev/zero", INPUT_STREAM, 1000));
    assert_fails(input_line(&in), E_FORMAT, "/dev/zero, line 1", "more than 1000 bytes");
    input_close(&in);
}

TEST(test_a_zero_byte_cuts_no_line) {
    assert_ok(input_open(&in, "", file_of("input-zero", "ab\nc\0d\n", 7), INPUT_FILE, 100));
    assert_ok(input_line(&in));
    assert_fails(input_line(&in), E_FORMAT, "line 2", "zero byte");
    input_close(&in);
}

TEST(test_a_disk_that_fails_is_no_end) {
    assert_ok(input_open(&in, "", file_of("input-fails", "ab\n", 3), INPUT_FILE, 100));
    int written = open(in.path, O_WRONLY);
    assert_true(written >= 0 && dup2(written, fileno(in.file)) >= 0);            /* reads now fail */
    assert_fails(input_line(&in), E_IO, "input-fails", "Bad file descriptor");
    close(written);
    input_close(&in);
}

TEST(test_what_waits_is_refused) {
    FILE *f;
    const char *fifo = test_path("input-fifo");
    assert_int_equal(mkfifo(fifo, 0600), 0);
    assert_fails(input_file("the list ", fifo, INPUT_FILE, &f), E_DATA, "the list ", "input-fifo is not a regular");
    assert_fails(input_file("", fifo, INPUT_STREAM, &f), E_DATA, "input-fifo is a pipe", "<(...)");
    assert_fails(input_file("", "/dev/zero", INPUT_FILE, &f), E_DATA, "is not a regular file");
    assert_fails(input_file("", "/dev", INPUT_STREAM, &f), E_DATA, "is a directory");
    assert_fails(input_file("", test_path("input-none"), INPUT_STREAM, &f), E_DATA, "input-none", "No such file");
    assert_null(f);
}

/* A pipe as in bash's <(...), whose writer is slower than the reader. */
TEST(test_a_pipe_that_is_open_already_is_read_to_its_end) {
    int ends[2];
    char name[32];
    assert_int_equal(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
    pid_t writer = fork();
    if (writer == 0) {
        usleep(50000);
        _exit(write(ends[1], "a\nb\n", 4) == 4 ? 0 : 1);
    }
    close(ends[1]);
    assert_ok(input_open(&in, "", name, INPUT_STREAM, 100));
    assert_ok(input_line(&in));
    assert_string_equal(in.text, "a\n");
    assert_ok(input_line(&in));
    assert_ok(input_line(&in));
    assert_int_equal(in.n, 0);
    input_close(&in);
    close(ends[0]);
}

TEST(test_a_system_that_opens_nothing_is_not_the_path_s_fault) {
    struct rlimit limit, none;
    FILE *f;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    none = limit, none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    enum status status = input_file("the list ", "/proc/self/stat", INPUT_FILE, &f);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_fails(status, E_IO, "cannot read the list /proc/self/stat", "Too many open files");
}

/* Files that are no JSON, that make open() wait, or that take too much memory when parsed. */
static char path[64];
static json_t *json;

static void write_text(const char *text, int times) {
    snprintf(path, sizeof path, "/tmp/trivium-json-%d", (int)getpid());
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < times; i++) fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

TEST(test_a_file_is_read) {
    write_text("{\"a\": [1, 2, 3]}", 1);
    assert_ok(json_file_read(path, 1024, 0, &json));
    assert_int_equal(json_array_size(json_object_get(json, "a")), 3);
    json_decref(json);
    unlink(path);
}

TEST(test_what_is_too_large_is_refused) {
    write_text("[1234567890]", 100);
    assert_fails(json_file_read(path, 1199, 0, &json), E_FORMAT, "1200 bytes", "the limit is 1199");
    write_text("[{},", 100);                                         /* 300 values in 400 bytes of text */
    assert_fails(json_file_read(path, 1024, 0, &json), E_FORMAT, "300 values", "the limit is 64");
    write_text("\"[[[[[[[[[[{,,,\\\"{\"", 1);
    assert_fails(json_file_read(path, 64, 0, &json), E_FORMAT, "is not JSON");   /* strings hold no values */
    write_text("{\"a\": ", 1);
    assert_fails(json_file_read(path, 1024, 0, &json), E_FORMAT, "is not JSON", "line 1");
    assert_null(json);
    unlink(path);
}

TEST(test_json_that_waits_is_refused) {
    write_text("", 1);
    unlink(path);
    assert_fails(json_file_read(path, 1024, 0, &json), E_DATA, "cannot read");
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_fails(json_file_read(path, 1024, 0, &json), E_DATA, "is not a regular file");
    unlink(path);
    assert_fails(json_file_read("/dev/zero", 1024, 0, &json), E_DATA, "is not a regular file");
}

TESTS(unit_test(test_a_system_that_opens_nothing_is_not_the_path_s_fault),
      unit_test(test_lines_have_numbers_and_their_ends), unit_test(test_a_longer_line_is_refused_by_its_limit),
      unit_test(test_a_zero_byte_cuts_no_line), unit_test(test_a_disk_that_fails_is_no_end),
      unit_test(test_what_waits_is_refused), unit_test(test_a_pipe_that_is_open_already_is_read_to_its_end),
      unit_test(test_a_file_is_read), unit_test(test_what_is_too_large_is_refused),
      unit_test(test_json_that_waits_is_refused))
