/* Append text to a buffer of fixed size; text that does not fit is dropped. And numbers as they are printed. */
#pragma once

#include <math.h>
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

/** x; a NaN loses its sign, which says nothing, so it is printed as "nan" and never as "-nan". */
static inline double printed(double x) { return isnan(x) ? fabs(x) : x; }
