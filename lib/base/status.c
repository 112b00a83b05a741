/* The one-line error. FAIL records it in a thread-local buffer; status_report writes it once. */
#include "lib/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 4096, IDENTITY_BYTES = 128, MAX_FRAMES = 16 };

struct frame { const char *file, *function; int line; };

/* Thread-local, so that a checkpoint writer's failure never overwrites what the training thread is about to report. */
static _Thread_local char recorded[LINE_MAX_BYTES];
static _Thread_local size_t message_at; /* offset of the message in `recorded` */
static _Thread_local struct frame frames[MAX_FRAMES];
static _Thread_local int n_frames;

static char identity[IDENTITY_BYTES];

static const char *const names[N_STATUS] = {
    [OK] = "OK",               [E_USAGE] = "E_USAGE",   [E_CONFIG] = "E_CONFIG",   [E_DATA] = "E_DATA",
    [E_FORMAT] = "E_FORMAT",   [E_IO] = "E_IO",         [E_MEMORY] = "E_MEMORY",   [E_DEVICE] = "E_DEVICE",
    [E_COMM] = "E_COMM",       [E_TIMEOUT] = "E_TIMEOUT", [E_NUMERIC] = "E_NUMERIC", [E_INTERNAL] = "E_INTERNAL",
    [E_EPOCH] = "E_EPOCH",     [E_TODO] = "E_TODO",
};

const char *status_name(enum status code) {
    return (unsigned)code < N_STATUS ? names[code] : "E_UNKNOWN";
}

int status_exit_code(enum status code) {
    switch (code) {
    case OK: return 0;
    case E_USAGE: case E_CONFIG: case E_DATA: case E_FORMAT: return 2;
    default: return 1;
    }
}

void status_identity(const char *text) {
    snprintf(identity, sizeof identity, "%s", text);
}

const char *status_identity_text(void) {
    return identity;
}

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* A path, an option's value or a name from a file can hold control characters. Replace them, so that an error stays
 * one line and moves no cursor. */
static void keep_to_one_line(char *text) {
    for (; *text; text++)
        if ((unsigned char)*text < ' ' || *text == 127) *text = ' ';
}

enum status status_fail(enum status code, const char *file, int line, const char *function, const char *format, ...) {
    char text[LINE_MAX_BYTES]; /* not `recorded` itself: an argument may be the previous failure's status_text() */
    size_t used = 0;
    if (*identity) used = (size_t)snprintf(text, sizeof text, "[%s] ", identity);
    used += (size_t)snprintf(text + used, sizeof text - used, "%s %s:%d %s: ", status_name(code), base_name(file), line,
                             function);
    size_t at = used;
    va_list arguments;
    va_start(arguments, format);
    if (used < sizeof text) vsnprintf(text + used, sizeof text - used, format, arguments);
    va_end(arguments);
    keep_to_one_line(text);
    memcpy(recorded, text, sizeof recorded);
    message_at = at < sizeof text ? at : sizeof text - 1;
    n_frames = 0;
    return code;
}

enum status status_frame(enum status code, const char *file, int line, const char *function) {
    if (n_frames < MAX_FRAMES) frames[n_frames++] = (struct frame){file, function, line};
    return code;
}

const char *status_text(void) {
    return recorded;
}

const char *status_message(void) {
    return *recorded ? recorded + message_at : "";
}

/* Append the callers, innermost first, for debugging Trivium. */
static size_t append_frames(char *text, size_t used, size_t size) {
    for (int i = 0; i < n_frames && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "    from %s:%d %s\n", base_name(frames[i].file),
                                 frames[i].line, frames[i].function);
    return used < size ? used : size - 1;
}

void status_report(void) {
    if (!*recorded) return;
    char text[LINE_MAX_BYTES + MAX_FRAMES * 256];
    size_t used = (size_t)snprintf(text, sizeof text, "%s\n", recorded);
    const char *show = getenv("TRIVIUM_FRAMES");
    if (show && strcmp(show, "1") == 0) used = append_frames(text, used, sizeof text);
    /* one write, because ranks share a terminal and their lines must not mix */
    ssize_t written = write(STDERR_FILENO, text, used);
    (void)written; /* an error here cannot be reported anywhere */
    status_clear();
}

void status_clear(void) {
    *recorded = 0;
    n_frames = 0;
}
