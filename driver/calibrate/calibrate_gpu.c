#include "driver/calibrate/calibrate_measure.h"

#include "driver/compare/compare_measure.h"
#include "lib/base/clock.h"
#include "lib/comm/comm.h"
#include "lib/device/stopwatch.h"
#include <stdlib.h>
#include <string.h>

enum { TIMES = 9, LAUNCHES = 200 };
struct buffers { void *a, *b, *pinned; int64_t bytes; };
typedef enum status piece(const struct device *, const struct buffers *);

static enum status copy(const struct device *d, const struct buffers *x) { return d->copy(d, x->b, x->a, x->bytes); }
static enum status up(const struct device *d, const struct buffers *x) {
    return d->upload_start(d, x->a, x->pinned, x->bytes);
}
static enum status down(const struct device *d, const struct buffers *x) {
    return d->download_start(d, x->pinned, x->a, x->bytes);
}
/* Each of these kernels writes one word. All but the first wait in the queue. */
static enum status launch(const struct device *d, const struct buffers *x) {
    for (int i = 0; i < LAUNCHES; i++) TRY(d->fill(d, x->a, 0, 8));
    return OK;
}

/* The median of TIMES runs, timed by events. A first run, which creates what the operation needs, is not counted. */
static enum status time_piece(const struct device *d, const struct buffers *x, piece *run, double *median_s) {
    struct stopwatch *watch;
    double seconds[TIMES] = {0}, first = 0;
    TRY(stopwatch_create(d, &watch));
    enum status status = OK;
    for (int i = -1; i < TIMES && status == OK; i++) {
        status = stopwatch_start(watch);
        if (status == OK) status = run(d, x);
        if (status == OK) status = stopwatch_stop(watch, i < 0 ? &first : &seconds[i]);
    }
    if (status == OK) status = d->finish(d);
    if (status == OK) status = stopwatch_collect(watch);
    stopwatch_destroy(&watch);
    *median_s = compare_median(seconds, TIMES);
    return status;
}

/* Time a copy in host memory, by a rank's threads, from one half of the pinned buffer to the other. */
static double host_copy_s(const struct buffers *x) {
    enum { PIECES = 64 };
    double seconds[TIMES];
    int64_t half = x->bytes / 2, part = half / PIECES;
    char *to = x->pinned;
    int threads = (int)(comm_local_cores() / comm_local_size());
    if (threads < 1) threads = 1;
    for (int i = 0; i < TIMES; i++) {
        double start = clock_s();
        #pragma omp parallel for num_threads(threads)
        for (int k = 0; k < PIECES; k++) memcpy(to + k * part, to + half + k * part, (size_t)part);
        seconds[i] = clock_s() - start;
    }
    return compare_median(seconds, TIMES);
}

static enum status time_all(const struct device *d, const struct buffers *x, struct gpu_speeds *out) {
    double copy_s = 0, up_s = 0, down_s = 0, bytes = (double)x->bytes;
    TRY(time_piece(d, x, copy, &copy_s));
    TRY(time_piece(d, x, up, &up_s));
    TRY(time_piece(d, x, down, &down_s));
    TRY(time_piece(d, x, launch, &out->launch_s));
    out->launch_s /= LAUNCHES;
    out->copy = 2 * bytes / copy_s, out->up = bytes / up_s, out->down = bytes / down_s;
    out->host_copy = bytes / host_copy_s(x);                         /* one half is read, one written */
    return OK;
}

enum status calibrate_gpu(const struct device *d, int64_t bytes, struct gpu_speeds *out) {
    struct buffers x = {.bytes = bytes};
    int gpus = device_cuda_count();
    *out = (struct gpu_speeds){.ranks = (comm_local_size() + gpus - 1) / gpus};
    d->memory(d, &out->used_bytes, &out->memory_bytes);
    enum status status = d->allocate(d, bytes, &x.a);
    if (status == OK) status = d->allocate(d, bytes, &x.b);
    if (status == OK) status = d->pin(d, bytes, &x.pinned);
    if (status == OK) status = d->clear(d, x.a, bytes);
    if (status == OK) memset(x.pinned, 0, (size_t)bytes);
    if (status == OK) status = time_all(d, &x, out);
    if (x.pinned) d->unpin(d, x.pinned);
    if (x.b) d->release(d, x.b, bytes);
    if (x.a) d->release(d, x.a, bytes);
    return status;
}
