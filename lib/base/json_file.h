/* JSON files that others have written. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stdint.h>

/** More than there are values in a JSON text of n bytes: an object or a list, or something behind a comma. Letters of
 *  strings do not count. A value takes up to 80 bytes of memory, and 2 of text: so count before you parse.
 *  @collective{none} */
int64_t json_count_values(const char *text, size_t n);

/** Read a file of at most max_bytes. It may have a value for each 16 of max_bytes, because a value takes more memory
 *  than text. @param flags jansson's  @param out new; NULL where it fails
 *  @errors E_DATA: it is no regular file, or cannot be read; E_FORMAT: too long, too many values, no JSON (with its
 *  line); E_MEMORY  @collective{none} */
enum status json_file_read(const char *path, int64_t max_bytes, size_t flags, json_t **out);
/** Write a file, over one that is there, and flush it to the disk. @param flags jansson's  @errors E_IO
 *  @collective{none} */
enum status json_file_write(const char *path, const json_t *, size_t flags);
