/* Text for HTML and SVG files: nothing that a person typed may become a tag, and every file stays well-formed XML. */
#pragma once

#include <stdio.h>

/** Write at most n_chars characters of a text (n_chars >= 4; a longer one is cut, and ends in "..."), safe between tags
 *  and in quoted attributes: & < > " ' become entities; bytes that are not UTF-8, and characters that XML does not know
 *  (control characters), become U+FFFD, the replacement character. */
void markup_short(FILE *, const char *text, int n_chars);

/** A copy without what is not UTF-8 and what XML does not know (U+FFFD instead), and with no entities: for JSON, whose
 *  strings are UTF-8 as well. To be freed; NULL: no memory. */
char *markup_plain(const char *text);
