/* What tests of one kernel share (lessons 11 and 23): memory of exactly n bytes, and a run in a chosen order of
 * threads. Functions are here, and not in a file of their own, because only builds with tests/simt have what they call.
 *
 *     struct kernel_run run = kernel_begin(order);
 *     enum status status = kernel_end(run, softmax_rows(y, x, R, C)); */
#pragma once

#include "lib/base/status.h"
#include "tests/simt/simt_test.h"
#include "tests/test.h"
#include <stdlib.h>
#include <string.h>

/** n bytes of the device, all 0xff, which is NaN in every type. An access after them is reported, and hits unused
 *  memory. To be freed by device_free. */
static inline void *device_bytes(size_t n) {
    enum { SLACK = 1 << 17 };
    void *at = aligned_alloc(256, (n + SLACK) / 256 * 256);
    assert_non_null(at);
    memset(at, 0xff, n);
    simt_memory_allocated(at, n);
    return at;
}
static inline float *device_floats(size_t n) {
    float *at = device_bytes(n * sizeof *at);
    for (size_t i = 0; i < n; i++) at[i] = NAN;
    return at;
}
static inline void device_free(void *at) {
    simt_memory_freed(at);
    free(at);
}

/* What a run in another order puts back */
struct kernel_run { void (*submit)(void *, void (*)(void *), void *, size_t); enum simt_order order; };

/** From here on kernels run synchronously, with any linked fake of the runtime, and their threads in this order. */
static inline struct kernel_run kernel_begin(enum simt_order order) {
    struct kernel_run before = {simt_submit, simt_get_order()};
    simt_submit = NULL;
    simt_set_order(order);
    return before;
}

/** End what kernel_begin began. @errors E_DEVICE the launch failed; else `status` */
static inline enum status kernel_end(struct kernel_run before, enum status status) {
    simt_set_order(before.order);
    simt_submit = before.submit;
    return simt_take_error() ? FAIL(E_DEVICE, "%s", simt_error_text()) : status;
}
