/* The file that --svg names. */
#pragma once

#include "lib/base/status.h"
#include <stdio.h>

/** Open the file. @param out closed with chart_file_close; NULL on error  @errors E_IO, with the path and the system's
 *  reason  @collective{none} */
enum status chart_file_open(const char *path, FILE **out);
/** Close the file and put it in place. @errors E_IO if a write failed  @collective{none} */
enum status chart_file_close(const char *path, FILE *);

/* Text for HTML and SVG files: text that a user typed never becomes a tag, and every file stays well-formed XML. */

/** Write at most n_chars characters of a text (n_chars >= 4; a longer one is cut, and ends in "..."), safe between tags
 *  and in quoted attributes: & < > " ' become entities; bytes that are not UTF-8, and characters that XML does not know
 *  (control characters), become U+FFFD, the replacement character. */
void markup_short(FILE *, const char *text, int n_chars);

/** A copy for JSON, whose strings must be UTF-8: bad bytes, and characters that XML does not know, become U+FFFD; there
 *  are no entities. The caller frees the copy; NULL: no memory. */
char *markup_plain(const char *text);
