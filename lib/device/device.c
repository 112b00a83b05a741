/* Functions of all devices; in a build without CUDA, also the refusal of a CUDA device. */
#include "lib/device/device.h"

#include "lib/base/clock.h"
#include <sched.h>

enum status device_wait(const struct device *device, const struct device_mark *mark, double timeout_s,
                        void (*idle)(void), const char *what) {
    double deadline_s = clock_s() + timeout_s;
    bool done = false;
    for (;;) {
        TRY(device->mark_done(device, mark, &done));
        if (done) return OK;
        if (clock_s() > deadline_s)
            return FAIL(E_TIMEOUT,
                        "%s did not finish on %s within %g s; a peer is missing, or raise --comm-timeout if it is "
                        "only slow",
                        what, device->name, timeout_s);
        if (idle) idle();
        else sched_yield();
    }
}

#ifndef TRIVIUM_CUDA
int device_cuda_count(void) { return 0; }

enum status device_cuda(int index, const struct device **out) {
    (void)index, (void)out;
    return FAIL(E_DEVICE,
                "this build has no CUDA; install the CUDA toolkit and build again (make CUDA=1), or use --device cpu");
}
#endif
