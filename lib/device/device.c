/* In a build without CUDA: the refusal of a CUDA device. */
#include "lib/device/device.h"

#ifndef TRIVIUM_CUDA
int device_cuda_count(void) { return 0; }

enum status device_cuda(int index, const struct device **out) {
    (void)index, (void)out;
    return FAIL(E_DEVICE,
                "this build has no CUDA; install the CUDA toolkit and build again (make CUDA=1), or use --device cpu");
}
#endif
