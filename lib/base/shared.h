/* Files in folders that other users can write to: /dev/shm, TMPDIR, a group's folder of checkpoints.
 *
 * Another user can create a predictable name first: as a link, so that our write overwrites the link's target; as a
 * FIFO, where open() waits forever; or as a device. So code opens every file of such a folder with shared_open, which
 * follows no link, does not wait, and accepts only regular files. A user's private files lie in a folder of mode 0700
 * (shared_folder). */
#pragma once

#include "lib/base/status.h"
#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

/* SHARED_READ: read an existing file. SHARED_UPDATE: read and write a file; create an empty file if there is none.
 * SHARED_NEW: remove a file or link of that name, then create an empty file to write. */
enum shared_use { SHARED_READ, SHARED_UPDATE, SHARED_NEW };

/** Open a file, close-on-exec. @param mode permissions of a created file  @return a descriptor, which the caller
 *  closes; -1: see errno and shared_why  @collective{none} */
int shared_open(const char *path, enum shared_use, mode_t mode);
/** Open a new stdio file (SHARED_NEW, mode 0666). @return NULL: see errno and shared_why  @collective{none} */
FILE *shared_create(const char *path);
/** The text of an errno of shared_open or shared_create; borrowed until the next strerror. @collective{none} */
const char *shared_why(int error);

/** Write the path of this user's private folder: parent/trivium-UID. Pure. @errors E_CONFIG: the path is too long */
enum status shared_folder_name(const char *parent, char *out, size_t size);
/** Write the path of this user's private folder and create the folder if needed, with mode 0700.
 *  @errors E_IO: it cannot be created, is another user's, or is a link; E_CONFIG: path too long  @collective{none} */
enum status shared_folder(const char *parent, char *out, size_t size);
