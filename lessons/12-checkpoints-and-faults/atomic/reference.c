/* Save so that no reader ever sees a part of a state: write the state to a temporary file, flush, rename; then replace
 * `latest`, which names the state, in the same way. */
#include "lessons/12-checkpoints-and-faults/atomic/atomic.h"

#include <string.h>

enum status atomic_replace(const struct disk *disk, const char *name, const void *data, int64_t bytes) {
    char beside[ATOMIC_NAME];
    snprintf(beside, sizeof beside, ".%s", name);
    TRY(disk->create(disk->self, beside));
    TRY(disk->append(disk->self, beside, data, bytes));
    TRY(disk->flush(disk->self, beside));
    TRY(disk->rename(disk->self, beside, name));
    return disk->flush_folder(disk->self);
}

enum status atomic_save(const struct disk *disk, int64_t step, const void *state, int64_t bytes, int64_t old) {
    char name[ATOMIC_NAME], text[ATOMIC_NAME + 1];
    atomic_step_name(step, name);
    snprintf(text, sizeof text, "%s\n", name);
    TRY(atomic_replace(disk, name, state, bytes));
    TRY(atomic_replace(disk, "latest", text, (int64_t)strlen(text)));
    if (old < 0 || old == step) return OK;
    atomic_step_name(old, name);
    TRY(disk->remove(disk->self, name));
    return disk->flush_folder(disk->self);
}
