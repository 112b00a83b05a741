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

/** "12.3 GiB", "87.5 MiB", "0.4 KiB": the largest unit of which there is a tenth. @return text */
static inline const char *bytes_text(double bytes, char text[32]) {
    static const char units[] = "GMK";
    int i = 0;
    double unit = 1 << 30;
    for (; i < 2 && bytes < unit / 10; i++) unit /= 1024;
    snprintf(text, 32, "%.1f %ciB", bytes / unit, units[i]);
    return text;
}

/** x; a NaN loses its sign, which says nothing, so it is printed as "nan" and never as "-nan". */
static inline double printed(double x) { return isnan(x) ? fabs(x) : x; }
