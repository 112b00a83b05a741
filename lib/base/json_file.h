/* Read JSON files that other programs wrote; write JSON files. */
#pragma once

#include "lib/base/status.h"
#include <jansson.h>
#include <stdint.h>

/** An upper bound of the number of values in a JSON text of n bytes: the count of '{', '[' and ',' outside strings.
 *  A value can take 2 bytes of text and 80 bytes of parsed memory, so check the count before parsing.
 *  @collective{none} */
int64_t json_count_values(const char *text, size_t n);

/** Read a file of at most max_bytes bytes and max_bytes / 16 values, because a parsed value takes more memory than its
 *  text. @param flags jansson's  @param out new; NULL on failure
 *  @errors E_DATA: no regular file, or unreadable; E_FORMAT: too long, too many values, or no JSON (the message has
 *  the line); E_MEMORY  @collective{none} */
enum status json_file_read(const char *path, int64_t max_bytes, size_t flags, json_t **out);
/** Write a file, replacing an existing file, and flush it to the disk. @param flags jansson's  @errors E_IO
 *  @collective{none} */
enum status json_file_write(const char *path, const json_t *, size_t flags);
