/* Copy a step's numbers from the device to the host. */
#include "lib/run/run_state.h"

/* On the CPU, work is done when it is issued. A CPU run may also lack the world that comm_wait_device needs. */
enum status run_wait(const struct run *r, const struct device_mark *mark, const char *what) {
    return r->device->kind == DEVICE_CPU ? OK : comm_wait_device(mark, what);
}

enum status run_read_scalar(struct run *r, const double *on_device, double *value) {
    struct step_record *free_record = &r->record[r->n_step % STEPS_AHEAD];
    TRY(r->device->download_start(r->device, free_record->scalars, on_device, sizeof *value));
    TRY(r->device->mark_set(r->device, &free_record->mark));
    TRY(run_wait(r, &free_record->mark, "a number of the step"));
    *value = *free_record->scalars;
    return OK;
}
