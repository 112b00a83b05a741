/* What a test says of a wrong schedule; below it what `trivium schedule` draws, if it is small and runs. */
#pragma once

#include "driver/chart/schedule_chart.h"
#include "lib/base/status.h"
#include "tests/test.h"

#include <stdarg.h>
#include <stdio.h>

enum { MOST_DRAWN = 4 };     /* stages; a grader shows twelve lines */

/** Fail with this sentence about a row's schedules for p stages, v chunks and m microbatches. F = Bi = W = 1. */
#define fail_drawn(row, p, v, m, ...) fail_drawn_((row), (p), (v), (m), __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 7, 8))) static inline void fail_drawn_(const struct pp_schedule *row, int p, int v, int m,
                                                                     const char *file, int line, const char *format,
                                                                     ...) {
    struct schedule_chart chart = {.row = row, .n_stages = p, .n_chunks = v, .n_microbatches = m, .time = {1, 1, 1}};
    va_list list;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    fputc('\n', stderr);
    if (p <= MOST_DRAWN && schedule_chart_make(&chart) == OK) schedule_chart_text(&chart, stderr);
    status_clear();
    schedule_chart_fini(&chart);
    _fail(file, line);
}
