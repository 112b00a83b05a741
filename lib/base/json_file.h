/* JSON files that others have written. */
#ifndef TRIVIUM_BASE_JSON_FILE_H
#define TRIVIUM_BASE_JSON_FILE_H

#include "lib/base/status.h"
#include <jansson.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Open a regular file to read. What waits or has no end (a FIFO, a device) is refused. @param out to be closed
 *  @errors E_DATA: it cannot be opened, or is no regular file  @collective{none} */
enum status regular_open(const char *path, FILE **out);

/** Read a file of at most max_bytes. It may have a value for each 16 of max_bytes, because a value takes more memory
 *  than text. @param flags jansson's  @param out new; NULL where it fails
 *  @errors E_DATA: regular_open's, or it cannot be read; E_FORMAT: too long, too many values, no JSON (with its line);
 *  E_MEMORY  @collective{none} */
enum status json_file_read(const char *path, int64_t max_bytes, size_t flags, json_t **out);

#ifdef __cplusplus
}
#endif
#endif
