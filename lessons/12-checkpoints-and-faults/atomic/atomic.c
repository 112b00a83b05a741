/* Save so that no reader ever sees a part of a state. atomic.h has each function's contract and the disk's promises. */
#include "lessons/12-checkpoints-and-faults/atomic/atomic.h"

enum status atomic_replace(const struct disk *disk, const char *name, const void *data, int64_t bytes) {
    /* A process that writes to `name` directly can be killed in the middle. Which two things must be flushed, and
     * when? */
    (void)disk, (void)name, (void)data, (void)bytes;
    return FAIL(E_TODO, "atomic_replace is still to be written");
}

enum status atomic_save(const struct disk *disk, int64_t step, const void *state, int64_t bytes, int64_t old) {
    /* In which order do the state, `latest` and the old step change? */
    (void)disk, (void)step, (void)state, (void)bytes, (void)old;
    return FAIL(E_TODO, "atomic_save is still to be written");
}
