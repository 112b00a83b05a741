/* A device holds memory and runs rows in order. Issue order is execution order on its compute stream. */
#ifndef TRIVIUM_DEVICE_DEVICE_H
#define TRIVIUM_DEVICE_DEVICE_H

#include "lib/base/status.h"
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum device_kind { DEVICE_CPU, DEVICE_CUDA, N_DEVICES };

struct device {
    enum device_kind kind;
    const char *name;
    /* 4096-byte aligned memory of the device. *out is owned by the caller, returned with `free`. @errors E_MEMORY */
    enum status (*allocate)(const struct device *, int64_t bytes, void **out);
    void (*release)(const struct device *, void *memory, int64_t bytes);
    /* Fill with a repeating 64-bit pattern; bytes a multiple of 8. */
    enum status (*fill)(const struct device *, void *to, uint64_t pattern, int64_t bytes);
    /* Copies to and from host memory, complete on return. */
    enum status (*upload)(const struct device *, void *to, const void *from_host, int64_t bytes);
    enum status (*download)(const struct device *, void *to_host, const void *from, int64_t bytes);
};

/** The host itself: plain memory, OpenMP threads. Static; never destroyed. */
const struct device *device_cpu(void);

#ifdef __cplusplus
}
#endif
#endif
