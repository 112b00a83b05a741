/* Save so that no reader ever sees a part of a state: the contract of this exercise. The theory is in lesson 12, "All
 * or nothing".
 *
 * A folder has files step-00000012, ..., each a whole state. A file `latest` names the state to continue from:
 * "step-00000012\n". At every moment, after every fault:
 *
 *   once `latest` exists, it always exists, and names an existing file. That file is one whole state that the caller
 *   has passed to atomic_save for that step.
 *   when atomic_save has returned OK, `latest` leads to the new state, even after a power loss at that moment.
 *
 * Possible faults are a process killed between two operations, a loss of power, and a failed operation. The disk is a
 * table of functions, so that a test can cause all of these. A disk promises no more than this (POSIX, and file systems
 * as they are):
 *
 *   a killed process     all completed operations are kept
 *   power loss           a file keeps all flushed data; of later data it keeps some, all or nothing
 *                        names (created, renamed or removed) are as at the last flush_folder, with any part of the
 *                        later changes, in any order
 *   rename               atomic for one name: `to` names either the whole old file or the whole new file */
#pragma once

#include "lib/base/status.h"
#include <inttypes.h>
#include <stdio.h>

struct disk {
    void *self;
    /* make an empty file; an existing file becomes empty */
    enum status (*create)(void *self, const char *name);
    enum status (*append)(void *self, const char *name, const void *data, int64_t bytes);
    /* flush the file's data: fsync */
    enum status (*flush)(void *self, const char *name);
    /* replaces a file named `to` */
    enum status (*rename)(void *self, const char *from, const char *to);
    enum status (*remove)(void *self, const char *name);
    /* flush the names: fsync of the folder */
    enum status (*flush_folder)(void *self);
};

enum { ATOMIC_NAME = 32 };
static inline void atomic_step_name(int64_t step, char name[ATOMIC_NAME]) {
    snprintf(name, ATOMIC_NAME, "step-%08" PRId64, step);
}

/** Afterwards the file `name` (shorter than ATOMIC_NAME - 1) has these bytes, also after a power loss. Before that the
 *  file is unchanged, or absent.
 *  @collective{none} @errors those of the disk, returned at once */
enum status atomic_replace(const struct disk *disk, const char *name, const void *data, int64_t bytes);

/** Save a step; an earlier save of the step may exist, with other data. Then remove the step `old`, unless it is -1 or
 *  equal to `step`.
 *  @collective{none} @errors those of the disk, returned at once; the step can then be saved again, also if temporary
 *  files are left */
enum status atomic_save(const struct disk *disk, int64_t step, const void *state, int64_t bytes, int64_t old);
