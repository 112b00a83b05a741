/* Append text to a buffer of fixed size. Text that does not fit is dropped. */
#pragma once

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* text: the caller's buffer of `bytes` > 0; used: its length, without the 0 at the end */
struct line { char *text; size_t bytes, used; };

/** Append text in printf's format. */
__attribute__((format(printf, 2, 3))) static inline void say(struct line *line, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line->text + line->used, line->bytes - line->used, format, arguments);
    va_end(arguments);
    line->used += (size_t)(n > 0 ? n : 0);
    if (line->used >= line->bytes) line->used = line->bytes - 1;
}
