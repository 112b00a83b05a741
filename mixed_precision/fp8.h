/* fp8: linear layers multiply operands of 8 bits, with delayed scaling. See fp8.c. */
#pragma once

#include "lib/run/technique.h"

extern const struct technique technique_fp8;

struct fp8_options {
    int on;
    int64_t history, margin;             /* steps whose amax counts; a scale leaves room for 2^margin times the amax */
};
static inline struct fp8_options *fp8_options(const struct plan *p) { return plan_own(p, &technique_fp8.options); }
