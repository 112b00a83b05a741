/* Shared by the tests of servers. */
#pragma once

#include "lib/checkpoint/checkpoint.h"
#include "lib/run/run.h"

/* save: make a step of an open run and save it. Otherwise load the checkpoint. Then make two steps. */
static inline enum status go_on_from(struct run *r, const char *folder, bool save, double *loss) {
    char step[CHECKPOINT_PATH_MAX];
    if (!save) TRY(checkpoint_resolve(folder, step));
    if (!save) TRY(checkpoint_load(r, step, CHECKPOINT_ALL));
    if (save) TRY(run_step(r));
    if (save) TRY(checkpoint_save(r, folder, 0));
    TRY(run_step(r));
    TRY(run_step(r));
    *loss = r->last.loss;
    return OK;
}
