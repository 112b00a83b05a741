/* Files in folders that others may write to, too: /dev/shm, TMPDIR, a folder of checkpoints that a group shares.
 *
 * A stranger can put something there under a name that is known beforehand: a link, through which a file of ours would
 * be written over; a FIFO, at which open() waits without end; a device. So every file of such a folder is opened here:
 * no link is followed, nothing is waited for, and what is no regular file is refused. What is this user's alone lies in
 * a folder of its own, which no stranger can look into or write to. */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* SHARED_READ: a file that is there. SHARED_UPDATE: read it and write to it; where there is none, it is made, empty.
 * SHARED_NEW: write a new, empty one; a file or link that has the name is removed first. */
enum shared_use { SHARED_READ, SHARED_UPDATE, SHARED_NEW };

/** Open a file. mode: of one that is made. @return a descriptor that is closed on exec, to be closed; -1: see errno and
 *  shared_why  @collective{none} */
int shared_open(const char *path, enum shared_use, mode_t mode);
/** A new file (SHARED_NEW, mode 0666), for stdio. @return NULL: see errno and shared_why  @collective{none} */
FILE *shared_create(const char *path);
/** Why one of these failed, in words; borrowed until the next strerror. @collective{none} */
const char *shared_why(int error);

/** The name of this user's own folder in `parent`: parent/trivium-UID. Pure. @errors E_CONFIG: too long */
enum status shared_folder_name(const char *parent, char *out, size_t size);
/** The same; make it where there is none. No other user can read it or write to it.
 *  @errors E_IO: it cannot be made, is another user's, or is a link; E_CONFIG: too long  @collective{none} */
enum status shared_folder(const char *parent, char *out, size_t size);
