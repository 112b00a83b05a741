/* Progress lines. Each line is one write, so that the lines of several ranks never mix. */
#include "lib/base/log.h"
#include "lib/base/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 2048 };

static enum log_level limit = LOG_INFO;

void log_set_level(enum log_level level) {
    limit = level;
}

enum log_level log_get_level(void) {
    return limit;
}

/* Plain progress comes from one rank and needs no name; a warning or a debug line may come from any rank. */
static size_t write_prefix(char *text, size_t size, enum log_level level) {
    const char *word = level == LOG_WARN ? "warning: " : level == LOG_DEBUG ? "debug: " : "";
    const char *who = status_identity_text();
    if (*word && *who) return (size_t)snprintf(text, size, "[%s] %s", who, word);
    return (size_t)snprintf(text, size, "%s", word);
}

void log_line(enum log_level level, const char *format, ...) {
    if (level > limit) return;
    char text[LINE_MAX_BYTES];
    size_t room = sizeof text - 1, used = write_prefix(text, room, level); /* the last byte is the newline's */
    va_list arguments;
    va_start(arguments, format);
    used += (size_t)vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
    if (used > room - 1) used = room - 1;
    text[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, text, used);
    (void)written;
}
