/* Saving so that no reader ever sees half of it: the contract of this exercise. The theory is in lesson 12, "All or
 * nothing".
 *
 * A folder has files step-00000012, ..., each a whole state, and a file `latest` that names the one to go on from:
 * "step-00000012\n". Whatever happens, and whenever:
 *
 *   `latest` (once there has been one) is there and names a file that is there, and that file is one whole state which
 *   was given to atomic_save for that step when atomic_save has returned OK, it is the new state that is found, even if
 *   the power goes at that moment
 *
 * What can happen is that the process is killed between two operations, that the power goes, or that an operation
 * fails. The disk is a table of functions, so that a test can do all of that. What a disk promises, and no more (POSIX,
 * and what file systems are allowed to do):
 *
 *   a killed process     everything that was done is there
 *   power lost           a file has at least what was flushed; of what came after it some, all or nothing
 *                        a name (made, moved or removed) is as it was at the last flush_folder; of what came after it
 *                        any part, in any order
 *   rename               one name at a time, all or nothing: under `to` is the old file or the new one, never
 *                        neither, never half */
#pragma once

#include "lib/base/status.h"
#include <inttypes.h>
#include <stdio.h>

struct disk {
    void *self;
    /* an empty file; one of that name is emptied */
    enum status (*create)(void *self, const char *name);
    enum status (*append)(void *self, const char *name, const void *data, int64_t bytes);
    /* the file's content: fsync */
    enum status (*flush)(void *self, const char *name);
    /* a file of the name `to` is replaced */
    enum status (*rename)(void *self, const char *from, const char *to);
    enum status (*remove)(void *self, const char *name);
    /* the names: fsync of the folder */
    enum status (*flush_folder)(void *self);
};

enum { ATOMIC_NAME = 32 };
static inline void atomic_step_name(int64_t step, char name[ATOMIC_NAME]) {
    snprintf(name, ATOMIC_NAME, "step-%08" PRId64, step);
}

/** Afterwards the file `name` (shorter than ATOMIC_NAME - 1) is these bytes, for good. Until then it is what it was, or
 *  not there.
 *  @collective{none} @errors those of the disk, at once */
enum status atomic_replace(const struct disk *disk, const char *name, const void *data, int64_t bytes);

/** Save a step, which may have been saved before, with another content; then remove the step `old`, unless it is -1 or
 *  the step itself.
 *  @collective{none} @errors those of the disk, at once; then the step can be saved again, whatever has been left
 *  behind */
enum status atomic_save(const struct disk *disk, int64_t step, const void *state, int64_t bytes, int64_t old);
